mod controller;
mod qdisc;
