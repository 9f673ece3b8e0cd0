//! fq_codel for firmware: everything in one static, no allocator, C functions on top.
//!
//! `scripts/no-heap.sh` builds this and shows that no allocator is linked.
#![no_std]

use core::cell::RefCell;
use debloat_aqm::fq_codel::{Config, FqCodel};
use debloat_aqm::{Context, Descriptor, Fixed, Qdisc};

/// 64 flows, 256 packets; the packet type is the small descriptor, whose id is the firmware's buffer number.
type Queue = FqCodel<Descriptor, Fixed<64, 256>>;

/// The one queue. Single core, no interrupts take it: an embedder puts its own lock here.
struct Shared(RefCell<Option<Queue>>);

// SAFETY: the functions below are called from one context only, which the C header states.
unsafe impl Sync for Shared {}

static QUEUE: Shared = Shared(RefCell::new(None));

/// Makes the queue. 0: well; -1: the configuration is refused.
#[unsafe(no_mangle)]
pub extern "C" fn debloat_start() -> i32 {
    let config = Config { flows: Some(64), limit: Some(255), memory_limit_bytes: Some(1 << 19), ..Config::default() };
    let Ok(mut slot) = QUEUE.0.try_borrow_mut() else { return -1 };
    match Queue::in_storage(config) {
        Ok(queue) => {
            *slot = Some(queue);
            0
        }
        Err(_) => -1,
    }
}

/// Offers buffer `id`; `dropped` is called with the number of each buffer that is given back. Linux's verdict code,
/// or -1 before `debloat_start`.
#[unsafe(no_mangle)]
pub extern "C" fn debloat_enqueue(
    id: u32,
    len_bytes: u32,
    flow_hash: u32,
    ds_field: u8,
    now_ns: u64,
    dropped: extern "C" fn(u32),
) -> i32 {
    let Ok(mut slot) = QUEUE.0.try_borrow_mut() else { return -1 };
    let Some(queue) = slot.as_mut() else { return -1 };
    let mut cx = Context::at(now_ns).on_drop(|packet: Descriptor, _| dropped(packet.id as u32));
    let packet = Descriptor::new(len_bytes).with_id(id.into()).with_flow_hash(flow_hash).with_ds_field(ds_field);
    queue.enqueue(packet, &mut cx).code() as i32
}

/// The number of the next buffer to send, or -1. `marked` is set to 1 if it must carry CE.
#[unsafe(no_mangle)]
pub extern "C" fn debloat_dequeue(now_ns: u64, dropped: extern "C" fn(u32), marked: Option<&mut u8>) -> i64 {
    let Ok(mut slot) = QUEUE.0.try_borrow_mut() else { return -1 };
    let Some(queue) = slot.as_mut() else { return -1 };
    let mut cx = Context::at(now_ns).on_drop(|packet: Descriptor, _| dropped(packet.id as u32));
    let Some(packet) = queue.dequeue(&mut cx) else { return -1 };
    if let Some(marked) = marked {
        *marked = u8::from(packet.ds_field.is_some_and(|ds| ds & 3 == 3));
    }
    packet.id as i64
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
