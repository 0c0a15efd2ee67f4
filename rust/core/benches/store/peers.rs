//! Other processes: this program starts itself again in a role and speaks with it in lines.

use super::data::Draw;
use super::open;
use otolith_core::Wait;
use otolith_core::store::{Store, StoreOptions};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

pub(crate) const ROLE: &str = "OTOLITH_BENCH_ROLE";
const HOME: &str = "OTOLITH_BENCH_HOME";
const NAME: &str = "OTOLITH_BENCH_NAME";

pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    pub(crate) fn start(role: &str, home: &Path, name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .env(HOME, home)
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }

    /// Ends its input and hears its last word.
    pub(crate) fn end(mut self) -> String {
        self.input = None;
        self.output.by_ref().last().unwrap().unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A peer ends by itself when its input does.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Two numbers of a report.
pub(crate) fn pair(line: &str) -> (f64, f64) {
    let (first, second) = line.split_once(' ').unwrap();
    (first.parse().unwrap(), second.parse().unwrap())
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// What this process does in a role.
pub(crate) fn run(role: &str) {
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let name = std::env::var(NAME).unwrap();
    let mut draw = Draw::new(name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte)));
    let lines = || std::io::stdin().lines().map_while(Result::ok);
    let wait = Wait::default();
    match role {
        // One record for each line.
        "writer" => {
            let engine = open(&home, false);
            for (at, _) in lines().enumerate() {
                engine.put(&wait, draw.put(&name, at, true)).unwrap();
                say("done");
            }
        }
        // Writes until it is killed.
        "busy" => {
            let engine = open(&home, false);
            for at in 0.. {
                engine.put(&wait, draw.put(&name, at, true)).unwrap();
                if at == 0 {
                    say("writing");
                }
            }
        }
        // Writes as many as a line says; reports its time and its longest wait in milliseconds.
        "writers" => {
            let engine = open(&home, false);
            say("ready");
            for line in lines() {
                let puts: Vec<_> = (0..line.parse().unwrap()).map(|at| draw.put(&name, at, false)).collect();
                let (started, mut longest) = (Instant::now(), 0.0_f64);
                for put in puts {
                    let began = Instant::now();
                    engine.put(&wait, put).unwrap();
                    longest = longest.max(super::table::ms(began.elapsed()));
                }
                say(&format!("{} {longest}", super::table::ms(started.elapsed())));
            }
        }
        // Reads until its input ends; reports how often, and the longest read in milliseconds.
        "reader" => {
            let ended = std::thread::spawn(move || lines().count());
            let options = StoreOptions { read_only: true, ..StoreOptions::default() };
            let store = Store::open(&home, &options).unwrap();
            let (mut reads, mut longest) = (0, 0.0_f64);
            while !ended.is_finished() {
                let began = Instant::now();
                let found = store.read(|view| {
                    let last = view.last_sequence()?;
                    let change = view.changes_since(last - 1, 1)?[0];
                    view.episode(change.id)
                });
                found.unwrap();
                longest = longest.max(super::table::ms(began.elapsed()));
                reads += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            say(&format!("{reads} {longest}"));
        }
        role => panic!("no such role: {role}"),
    }
}
