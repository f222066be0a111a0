//! The packets of a question about subjects: each destination, from each user of the subject's containers.

use crate::Subject;
use crate::explain::{
    ApplicationUser, Explanation, PacketQuery, PodContext, QuestionContext, RuleView, explain, packet,
};
use mesh::sources::{Given, Raw, SettingReader, Source};
use mesh::{Capture, Problems, Setting};
use rules::finding::Code;
use rules::simulate::Packet;

/// A subject with one of the packets, sent by one of its users.
pub struct SubjectPacket {
    pub subject: Subject,
    /// The heading of its answer, where there are several.
    pub title: Option<String>,
    /// The place of its destination in the list of all.
    pub destination: usize,
    pub user: Option<ApplicationUser>,
    /// True for the first packet of its subject.
    pub is_first: bool,
}

impl SubjectPacket {
    /// The packets to these destinations, or the one that the settings describe.
    pub fn all(subject: &Subject, destinations: &[String]) -> Vec<Self> {
        let users = ApplicationUser::all(subject.applications());
        let users = if users.is_empty() { vec![None] } else { users.into_iter().map(Some).collect() };
        let mut all = Vec::new();
        for destination in 0..destinations.len().max(1) {
            let (mut subject, mut title) = (subject.clone(), subject.title.clone());
            if let [_, _, ..] = destinations {
                let source = Source::Flag(Setting::Destination.row().long);
                let given = Given { value: destinations[destination].clone(), source };
                title = Some(headed(title.as_deref(), &given.value));
                subject.raw = Raw::of([(Setting::Destination, given)]).over(subject.raw);
            }
            for user in users.iter().cloned() {
                let (subject, title, is_first) = (subject.clone(), title.clone(), all.is_empty());
                all.push(Self { subject, title, destination, user, is_first });
            }
        }
        all
    }

    /// One answer of each packet to which its user makes no difference, and titles that name the users of the others instead.
    pub fn distinct<T>(mut all: Vec<(Self, T)>, packet: impl Fn(&T) -> Option<&Packet>) -> Vec<(Self, T)> {
        all.dedup_by(|(next, of_next), (before, of_before)| {
            !next.is_first
                && next.destination == before.destination
                && packet(of_next).is_some_and(|next| Some(next) == packet(of_before))
        });
        let titles: Vec<Option<String>> = all.iter().map(|(one, _)| one.title.clone()).collect();
        for (Self { title, user, .. }, _) in &mut all {
            let is_of_several = titles.iter().filter(|one| *one == title).count() > 1;
            if let Some(user) = user.take_if(|_| is_of_several) {
                *title = Some(headed(title.as_deref(), &user.to_string()));
            }
        }
        all
    }
}

fn headed(of: Option<&str>, what: &str) -> String {
    of.map_or_else(|| what.to_owned(), |of| format!("{of}: {what}"))
}

pub struct Prepared {
    pub capture: Capture,
    pub pod: PodContext,
    pub packet: Option<PacketQuery>,
    pub warnings: Vec<String>,
}

impl Prepared {
    /// Reads the configuration of a subject, whose containers run as this user, and the packet too where it is asked about.
    ///
    /// # Errors
    /// Every problem with the settings.
    pub fn of(subject: &Subject, user: Option<&ApplicationUser>, asks: bool) -> Result<Self, Problems> {
        let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
        let host = subject.host();
        let capture = mesh::configure(&mut reader, &*host, false);
        let pod = PodContext::from_settings(&subject.raw, Some(&*capture), Some(&*host));
        let pod = user.into_iter().fold(pod, PodContext::with_application);
        let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
        let packet = if asks { packet(&mut reader, &place) } else { None };
        let warnings = reader.finish()?;
        Ok(Self { capture, pod, packet, warnings })
    }
}

impl Subject {
    pub fn explain<'a>(&self, rule_view: &'a RuleView, query: &'a PacketQuery) -> Explanation<'a> {
        let mut remarks = self.warnings_of_form().iter();
        let doubt = remarks.find(|remark| remark.code == Code::OwnNetworkStack);
        explain(&rule_view.view, &rule_view.routing, &query.packet)
            .with_endpoint_names(&query.endpoint_names)
            .in_words_of(&self.dialect())
            .of_skipped(self.skip())
            .in_doubt(doubt.map(|remark| remark.text.as_str()))
            .over(rule_view, query)
    }
}
