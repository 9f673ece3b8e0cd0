use debloat_aqm::Counters;
use serde_json::{Map, Value};

use super::units::sizes;

/// Where a qdisc is attached, for the first line of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The root of a device with this reference count.
    Root {
        /// Linux's reference count; 2 for an ordinary device.
        refcnt: u32,
    },
    /// A child of this class, `major << 16 | minor`.
    Parent(u32),
}

/// One printed value: tc shows most values both as text and in JSON, some in one of them only.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    text: Option<String>,
    json: Option<(String, Value)>,
}

/// Collects a qdisc's options or statistics in the order in which tc prints them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Printer {
    fields: Vec<Field>,
}

impl Printer {
    /// A value in text (exactly these characters, spaces and line ends included) and in JSON.
    pub fn both(&mut self, key: &str, json: impl Into<Value>, text: impl Into<String>) {
        self.fields.push(Field { text: Some(text.into()), json: Some((key.into(), json.into())) });
    }

    /// Characters that are only in the text.
    pub fn text(&mut self, text: impl Into<String>) {
        self.fields.push(Field { text: Some(text.into()), json: None });
    }

    /// A value that is only in JSON.
    pub fn json(&mut self, key: &str, json: impl Into<Value>) {
        self.fields.push(Field { text: None, json: Some((key.into(), json.into())) });
    }

    fn to_text(&self) -> String {
        self.fields.iter().filter_map(|field| field.text.as_deref()).collect()
    }

    fn to_map(&self) -> Map<String, Value> {
        self.fields.iter().filter_map(|field| field.json.clone()).collect()
    }
}

/// A qdisc as `tc -s -d qdisc show` sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The tc name.
    pub kind: &'static str,
    /// Handle, `major << 16`.
    pub handle: u32,
    /// Where it is attached.
    pub attachment: Attachment,
    /// The options.
    pub options: Printer,
    /// The counters that every qdisc has.
    pub counters: Counters,
    /// The qdisc's own statistics.
    pub statistics: Printer,
}

/// A class as `tc -s class show` sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownClass {
    /// The qdisc's tc name.
    pub kind: &'static str,
    /// Minor number of the class.
    pub minor: u32,
    /// Its counters.
    pub counters: Counters,
    /// Its own statistics.
    pub statistics: Printer,
}

impl ShownClass {
    /// The text of `tc -s class show`, for a qdisc of this handle.
    pub fn text(&self, handle: u32) -> String {
        let c = &self.counters;
        let major = handle >> 16;
        format!(
            "class {} {major:x}:{:x} parent {major:x}: \n (dropped {}, overlimits {} requeues {}) \n \
             backlog {} {}p requeues {}\n{}",
            self.kind,
            self.minor,
            c.drops,
            c.overlimits,
            c.requeues,
            sizes::text(c.backlog_bytes),
            c.qlen,
            c.requeues,
            with_line_end(self.statistics.to_text()),
        )
    }

    /// The object of `tc -s -j class show`.
    pub fn json(&self, handle: u32) -> Value {
        let c = &self.counters;
        let major = handle >> 16;
        let mut object = Map::new();
        object.insert("class".into(), self.kind.into());
        object.insert("handle".into(), format!("{major:x}:{:x}", self.minor).into());
        object.insert("parent".into(), format!("{major:x}:").into());
        object.extend(counters_json(c));
        object.insert("stats".into(), self.statistics.to_map().into());
        Value::Object(object)
    }
}

fn counters_json(c: &Counters) -> Map<String, Value> {
    let pairs: [(&str, Value); 7] = [
        ("bytes", c.sent_bytes.into()),
        ("packets", c.sent_packets.into()),
        ("drops", c.drops.into()),
        ("overlimits", c.overlimits.into()),
        ("requeues", c.requeues.into()),
        ("backlog", c.backlog_bytes.into()),
        ("qlen", c.qlen.into()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

impl Shown {
    /// The text of `tc -s qdisc show`.
    pub fn text(&self) -> String {
        let c = &self.counters;
        let place = match self.attachment {
            Attachment::Root { refcnt } => format!("root refcnt {refcnt}"),
            Attachment::Parent(class) => format!("parent {}", class_text(class)),
        };
        format!(
            "qdisc {} {:x}: {place} {}\n Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {}) \n \
             backlog {} {}p requeues {}\n{}",
            self.kind,
            self.handle >> 16,
            self.options.to_text(),
            c.sent_bytes,
            c.sent_packets,
            c.drops,
            c.overlimits,
            c.requeues,
            sizes::text(c.backlog_bytes),
            c.qlen,
            c.requeues,
            with_line_end(self.statistics.to_text()),
        )
    }

    /// The object of `tc -s -j qdisc show`.
    pub fn json(&self) -> Value {
        let c = &self.counters;
        let mut object = Map::new();
        object.insert("kind".into(), self.kind.into());
        object.insert("handle".into(), format!("{:x}:", self.handle >> 16).into());
        match self.attachment {
            Attachment::Root { refcnt } => {
                object.insert("root".into(), true.into());
                object.insert("refcnt".into(), refcnt.into());
            }
            Attachment::Parent(class) => {
                object.insert("parent".into(), class_text(class).into());
            }
        }
        object.insert("options".into(), self.options.to_map().into());
        object.extend(counters_json(c));
        object.extend(self.statistics.to_map());
        Value::Object(object)
    }
}

fn class_text(class: u32) -> String {
    format!("{:x}:{:x}", class >> 16, class & 0xffff)
}

fn with_line_end(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
