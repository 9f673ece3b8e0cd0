//! Kernel against kernel: the same sequences on two kernels, and the shortest one that tells them apart.
//!
//! One process holds one kernel, so each kernel is served by a process of its own (`debloat oracle serve`), which
//! reads cases and answers with a fingerprint per step.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use debloat_aqm::net::testing::Dice;
use debloat_harness::trace::Call;
use debloat_oracle::World;
use serde::{Deserialize, Serialize};

use super::case::Case;
use super::kernel::Session;
use super::shrink::shrink;
use super::target::Target;

/// One kernel's answer to a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The options were refused.
    pub refused: bool,
    /// One fingerprint per step.
    pub prints: Vec<u64>,
    /// The last step's call as text, if the case was asked for in full.
    pub last: String,
    /// Trouble inside the kernel's code, or empty.
    pub trouble: String,
}

/// What tells two kernels apart.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The shortest case found.
    pub case: Case,
    /// The last call on the first kernel.
    pub first: String,
    /// And on the second.
    pub second: String,
}

/// Answers cases from standard input until it ends: the child's side.
///
/// # Errors
///
/// Those of the pipes, and requests that cannot be read.
pub fn serve(world: &World, target: &dyn Target) -> io::Result<()> {
    let mut session = Session::new(world, target).map_err(io::Error::other)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Some(case) = receive::<Case>(&mut input)? {
        send(&mut output, &answer(&mut session, &case))?;
    }
    Ok(())
}

fn answer(session: &mut Session<'_>, case: &Case) -> Answer {
    let mut answer = Answer::default();
    let mut last = None;
    match session.start(case) {
        Ok(None) => answer.refused = true,
        Err(error) => answer.trouble = error.to_string(),
        Ok(Some(mut running)) => {
            for step in &case.steps {
                match running.step(session, case, step) {
                    Ok(call) => {
                        answer.prints.push(fingerprint(&call));
                        last = Some(call);
                    }
                    Err(error) => {
                        answer.trouble = error.to_string();
                        break;
                    }
                }
            }
        }
    }
    answer.last = last.map_or_else(String::new, |call| format!("{call:#?}"));
    answer
}

fn fingerprint(call: &Call) -> u64 {
    // The standard hasher has a fixed key; both processes run the same program.
    let mut hasher = DefaultHasher::new();
    format!("{call:?}").hash(&mut hasher);
    hasher.finish()
}

/// A process that serves one kernel.
pub struct Server {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Server {
    /// Starts this program's `oracle serve` for a kernel and a qdisc.
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn start(kernel: &str, kind: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["oracle", "serve", "--kernel", kernel, kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else { return Err(io::Error::other("no pipe to the child")) };
        Ok(Self { child, input, output })
    }

    /// Asks for a case.
    ///
    /// # Errors
    ///
    /// The process ended, or answered nonsense.
    pub fn ask(&mut self, case: &Case) -> io::Result<Answer> {
        send(&mut self.input, case)?;
        receive(&mut self.output)?.ok_or_else(|| io::Error::other("the kernel's process ended; its message is above"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is ours, and waits for cases.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs drawn cases on both until `operations` are done or they differ. Returns the operations done.
///
/// # Errors
///
/// A process that ended.
pub fn compare(
    first: &mut Server,
    second: &mut Server,
    target: &dyn Target,
    seed: u64,
    operations: u64,
    mut progress: impl FnMut(u64),
) -> io::Result<(u64, Option<Apart>)> {
    let (mut done, mut number) = (0, 0u64);
    while done < operations {
        let mut dice = Dice::seeded(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        number += 1;
        let case = Case::draw(target, &mut dice, 400);
        let (a, b) = (first.ask(&case)?, second.ask(&case)?);
        done += case.steps.len() as u64;
        progress(case.steps.len() as u64);
        if same(&a, &b) {
            continue;
        }
        let until = a.prints.iter().zip(&b.prints).take_while(|(a, b)| a == b).count();
        let mut broken = None;
        let short =
            shrink(&case, until.min(case.steps.len() - 1), |shorter| match (first.ask(shorter), second.ask(shorter)) {
                (Ok(a), Ok(b)) => !same(&a, &b),
                (Err(error), _) | (_, Err(error)) => {
                    broken.get_or_insert(error);
                    false
                }
            });
        if let Some(error) = broken {
            return Err(error);
        }
        let (a, b) = (first.ask(&short)?, second.ask(&short)?);
        let text = |answer: Answer| match (answer.refused, answer.trouble.is_empty()) {
            (true, _) => "refuses the options".to_owned(),
            (_, false) => answer.trouble,
            _ => answer.last,
        };
        return Ok((done, Some(Apart { case: short, first: text(a), second: text(b) })));
    }
    Ok((done, None))
}

fn same(a: &Answer, b: &Answer) -> bool {
    (a.refused, &a.prints, a.trouble.is_empty()) == (b.refused, &b.prints, b.trouble.is_empty())
}

fn send<T: Serialize>(to: &mut impl Write, value: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

fn receive<T: for<'de> Deserialize<'de>>(from: &mut impl Read) -> io::Result<Option<T>> {
    const LIMIT: usize = 1 << 28;
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LIMIT {
        return Err(io::Error::other(format!("a message of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}
