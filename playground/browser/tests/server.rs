//! A server of files that knows one file, and counts its requests.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves the page on loopback, as long as the test runs.
    pub(crate) fn start(page: Vec<u8>) -> Self {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
        assert!(up.success(), "loopback is needed");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (page, noted) = (page.clone(), Arc::clone(&noted));
                thread::spawn(move || serve(stream, &page, &noted));
            }
        });
        Self { url, asked }
    }

    /// The first line of each request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("nobody panicked").clone()
    }
}

fn serve(mut stream: TcpStream, page: &[u8], noted: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    noted.lock().expect("nobody panicked").push(first);
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    // The browser may have gone meanwhile.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(page)));
}
