//! A server of a few files that records its requests.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves files below `folder` on loopback for the duration of the test. A file without a name is the folder's page.
    pub(crate) fn start(folder: &str, files: &[(&str, Vec<u8>)]) -> Self {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
        assert!(up.success(), "loopback is needed");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}{folder}", listener.local_addr().expect("an address"));
        let files: Vec<(String, Vec<u8>)> = files
            .iter()
            .map(|(name, content)| (format!("GET {folder}{name} HTTP/1.1"), content.clone()))
            .collect();
        let files = Arc::new(files);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (files, noted) = (Arc::clone(&files), Arc::clone(&noted));
                thread::spawn(move || serve(stream, &files, &noted));
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic before").clone()
    }
}

fn serve(mut stream: TcpStream, files: &[(String, Vec<u8>)], noted: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    noted.lock().expect("no panic before").push(first.clone());
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let found = files.iter().find(|(request, _)| *request == first);
    let (status, content) = found.map_or(("404 Not Found", &[][..]), |(_, content)| ("200 OK", content));
    let kind = if first.contains(".bin ") { "application/octet-stream" } else { "text/html" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    );
    // The browser may have closed the connection.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(content)));
}
