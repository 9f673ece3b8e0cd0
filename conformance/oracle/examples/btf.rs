//! Lists the members of kernel structures: `cargo run --example btf -- 6.12 sk_buff [module:structure…]`.
use debloat_oracle::{World, WorldOptions, find};

fn main() -> debloat_oracle::Result<()> {
    let mut args = std::env::args().skip(1);
    let world = World::load(&find(&args.next().unwrap_or_else(|| "newest".into()))?, WorldOptions::default())?;
    for name in args {
        let (module, structure) = name.split_once(':').unwrap_or(("", &name));
        if !module.is_empty() {
            world.load_module(module)?;
        }
        let btf = world.btf_of(module);
        println!("{structure}: {} bytes", btf.size_of(structure)?);
        for m in btf.members(structure)? {
            let bits = if m.bits > 0 { format!(" : {} bits", m.bits) } else { String::new() };
            println!("  {:5} {:4} {}{bits}", m.offset, m.size, m.name);
        }
    }
    Ok(())
}
