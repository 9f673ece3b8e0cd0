//! A real QUIC transfer over loopback with one of Linux's congestion controls: `transfer [cubic|bbr|dctcp|reno] [MB]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::ControllerFactory;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a transfer was like.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Bytes received.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
    /// The sender's window at the end, bytes.
    pub window: u64,
    /// Packets that quinn declared lost.
    pub lost: u64,
}

/// The factory of this name.
pub fn factory(name: &str) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    Some(match name {
        "cubic" => Arc::new(debloat_quinn::Cubic::default()),
        "bbr" => Arc::new(debloat_quinn::Bbr::default()),
        "dctcp" => Arc::new(debloat_quinn::Dctcp::default()),
        "reno" => Arc::new(debloat_quinn::Reno::default()),
        _ => return None,
    })
}

/// Sends `bytes` from a client to a server on loopback.
///
/// # Errors
///
/// Whatever sockets, certificates or QUIC refuse.
pub async fn transfer(control: Arc<dyn ControllerFactory + Send + Sync>, bytes: u64) -> Result<Outcome, Error> {
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = quinn::rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.key_pair.serialize_der());
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(control);
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate.cert.der().clone()], key.into())?;
    server.transport_config(transport.clone());
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate.cert.der().clone())?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(transport);

    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Endpoint::server(server, any)?;
    let address = listener.local_addr()?;
    let receiver = tokio::spawn(async move {
        let connection = listener.accept().await.ok_or("the endpoint closed")?.await?;
        let mut stream = connection.accept_uni().await?;
        let (mut buffer, mut received) = (vec![0; 65_536], 0u64);
        while let Some(n) = stream.read(&mut buffer).await? {
            received += n as u64;
        }
        connection.close(0u32.into(), b"done");
        listener.wait_idle().await;
        Ok::<u64, Error>(received)
    });

    let started = Instant::now();
    let endpoint = Endpoint::client(any)?;
    let connection = endpoint.connect_with(client, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let chunk = vec![0x5a; 65_536];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(chunk.len() as u64);
        stream.write_all(&chunk[..n as usize]).await?;
        left -= n;
    }
    stream.finish()?;
    let stats = connection.stats();
    connection.closed().await;
    let received = receiver.await??;
    Ok(Outcome { bytes: received, time: started.elapsed(), window: stats.path.cwnd, lost: stats.path.lost_packets })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "cubic".into());
    let megabytes: u64 = arguments.next().unwrap_or_else(|| "20".into()).parse()?;
    let control = factory(&name).ok_or_else(|| format!("{name}: expected cubic, bbr, dctcp or reno"))?;
    let outcome = transfer(control, megabytes * 1_000_000).await?;
    println!(
        "{name}: {} bytes in {:.2} s, window {} bytes, {} packets lost",
        outcome.bytes,
        outcome.time.as_secs_f64(),
        outcome.window,
        outcome.lost
    );
    Ok(())
}
