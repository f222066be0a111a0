//! Packet of a question, as settings for the manifest's answer and as words for the kernel's.

use crate::arguments::PacketArguments;
use diagnose::Subject;
use diagnose::explain::{ApplicationUser, PodContext, QuestionContext, packet};
use mesh::sources::{Given, Raw, RemoteHost, SettingReader, Source};
use mesh::{InputProblem, Setting};

impl PacketArguments {
    fn given(&self) -> impl Iterator<Item = (Setting, &'static str, &str)> {
        let Self { sender, direction, proto, source, uid, gid } = self;
        let all = [
            (Setting::Sender, "sender", sender),
            (Setting::Direction, "direction", direction),
            (Setting::Protocol, "proto", proto),
            (Setting::PacketSource, "source", source),
            (Setting::SenderUid, "uid", uid),
            (Setting::SenderGid, "gid", gid),
        ];
        all.into_iter().filter_map(|(setting, flag, value)| Some((setting, flag, value.as_deref()?)))
    }

    pub(crate) fn settings(&self, destination: &str) -> Raw {
        let given = self.given().map(|(setting, flag, value)| {
            (setting, Given { value: value.to_owned(), source: Source::Flag(flag) })
        });
        let to = Given { value: destination.to_owned(), source: Source::Key("DESTINATION".to_owned()) };
        Raw::of(given.chain([(Setting::Destination, to)]))
    }

    /// Words of the same packet for `sidecar-init explain`, sent by this user of the application.
    pub(crate) fn words(&self, user: Option<&ApplicationUser>) -> Vec<String> {
        let given = self.given().map(|(setting, _, value)| format!("--{}={value}", setting.row().long));
        let mut words: Vec<_> = given.collect();
        if let Some(user) = user.filter(|user| !user.is_default()) {
            words.extend(user.uid.map(|uid| format!("--uid={uid}")));
            words.extend(self.gid.is_none().then(|| format!("--gid={}", user.gid)));
        }
        words
    }

    pub(crate) fn problems(&self, destination: &str) -> Vec<InputProblem> {
        let subject = Subject::of_flags(self.settings(destination), Vec::new(), RemoteHost::host);
        let host = subject.host();
        let pod = PodContext::from_settings(&subject.raw, None, Some(&*host));
        let mut reader = SettingReader::new(&subject.raw, Vec::new());
        let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
        let _ = packet(&mut reader, &place);
        reader.finish().err().map(|problems| problems.0).unwrap_or_default()
    }
}
