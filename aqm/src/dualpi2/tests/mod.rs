mod law;
mod qdisc;
mod vectors;

const HANDLE: u32 = 0x10000;
