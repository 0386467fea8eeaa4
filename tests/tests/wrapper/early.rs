//! Tests of the entry point that runs before the C library starts: the functions that the entry
//! point can reach, and calls that it cannot complete.

use crate::harness::{WrapperHarness, stderr};
use nri_tests::fake_runtime::program;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
};

/// Functions at which the search ends: `_start` starts the C library, and `_Unwind_Resume` is
/// reached only after a panic.
const ENDS: [&str; 2] = ["_start", "_Unwind_Resume"];

/// Prefixes of mangled names of Rust functions.
const RUST: [&str; 2] = ["_ZN", "_R"];

/// Crates whose functions need a C library or its heap, as mangled names spell them.
const CRATES: [&str; 6] = ["3std", "std..", "5alloc", "alloc..", "3nix", "4libc"];

/// A program, disassembled.
struct Code {
    /// Name and instructions of each function, by its address.
    functions: BTreeMap<u64, (String, Vec<String>)>,
    /// Global offset table: map from the address of an entry to the address of the function that
    /// the entry contains.
    table: BTreeMap<u64, u64>,
}

impl Code {
    fn read() -> Self {
        let objdump = |arguments: &[&str]| {
            let wrapper = program("nri-container-runtime");
            let output = Command::new("objdump").args(arguments).arg(wrapper).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        let mut functions: BTreeMap<u64, (String, Vec<String>)> = BTreeMap::new();
        let mut last = None;
        for line in objdump(&["-d", "--no-show-raw-insn"]).lines() {
            let name = line.strip_suffix(">:").and_then(|line| line.split_once(" <"));
            if let Some((address, name)) = name {
                last = Some(number(address).unwrap());
                functions.insert(last.unwrap(), (name.to_owned(), Vec::new()));
            } else if let Some(function) = last.and_then(|last| functions.get_mut(&last)) {
                function.1.push(line.to_owned());
            }
        }
        Self { functions, table: words(&objdump(&["-s", "-j", ".got"])) }
    }

    /// Returns the function that an instruction calls, or whose address it loads: `call 2f3 <f>`,
    /// `mov $0x2f3,%rax`, or `mov 0x10(%rip),%rax # 2f3 <f>`.
    fn target(&self, instruction: &str) -> Option<u64> {
        let (operation, comment) = instruction.split_once('#').unwrap_or((instruction, ""));
        let operands = operation.rsplit('\t').next()?;
        let operands = operands.split_once(' ').map_or(operands, |(_, operands)| operands.trim());
        let operand = [comment.trim(), operands.trim_start_matches('$')]
            .into_iter()
            .find(|operand| !operand.is_empty())?;
        let end = |c: char| !c.is_ascii_alphanumeric();
        let address = number(operand.split(end).next()?)?;
        let address = self.table.get(&address).copied().unwrap_or(address);
        self.functions.contains_key(&address).then_some(address)
    }
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Reads 8-byte words from lines of `objdump -s`: an address, and four groups of four bytes.
fn words(dump: &str) -> BTreeMap<u64, u64> {
    let mut words = BTreeMap::new();
    for line in dump.lines().filter(|line| line.starts_with(' ')) {
        let columns: Vec<&str> = line.split_whitespace().take(5).collect();
        let Some(address) = columns.first().and_then(|first| number(first)) else { continue };
        for (at, pair) in (address..).step_by(8).zip(columns[1..].chunks_exact(2)) {
            words.insert(at, number(&pair.concat()).unwrap_or_default().swap_bytes());
        }
    }
    words
}

/// Functions of the C library cannot be called before its start: functions with variants for
/// several processors (IFUNC) are not resolved yet, and the thread-local variable `errno` has no
/// memory.
#[test]
fn the_entry_point_reaches_no_function_of_the_c_library() {
    let code = Code::read();
    let Some(entry) = code.functions.iter().find(|(_, (name, _))| name == "nri_entry") else {
        println!("skipped: this wrapper has no entry point before the C library");
        return;
    };
    let (mut seen, mut todo) = (BTreeSet::new(), vec![(*entry.0, String::new())]);
    let mut wrong = Vec::new();
    while let Some((address, caller)) = todo.pop() {
        if !seen.insert(address) {
            continue;
        }
        let (name, instructions) = &code.functions[&address];
        if ENDS.contains(&name.as_str()) || name.contains("4core9panicking") {
            continue;
        }
        let is_assembly = name == "nri_entry" || name.starts_with("__wrap_");
        let is_rust = RUST.iter().any(|start| name.starts_with(start));
        // Types of `std::os::fd` in the name of a function of another crate need no C library, nor
        // does `IoSlice`, a pointer with a length.
        let name = &name.replace("std..os..fd", "").replace("3std2io7IoSlice", "");
        if !is_assembly && (!is_rust || CRATES.iter().any(|part| name.contains(part))) {
            wrong.push(format!("{caller} reaches {name}"));
            continue;
        }
        let targets = instructions.iter().filter_map(|instruction| code.target(instruction));
        todo.extend(targets.map(|target| (target, name.clone())));
    }
    assert_eq!(wrong, <[String; 0]>::default());
    let reached = |part: &str| seen.iter().any(|address| code.functions[address].0.contains(part));
    assert!(reached("__wrap_memcpy") && reached("nri_passthrough"), "calls were not followed");
    assert!(reached("_start"), "the entry point must start the C library for all other calls");
}

/// The file is executable, so only execve(2) detects that it is not a program. The entry point then
/// starts the C library, and the wrapper reports the error as for verbs with an event.
#[test]
fn a_runtime_that_cannot_be_executed_is_reported() {
    let harness = WrapperHarness::new();
    let runtime = harness.path("text");
    fs::write(&runtime, "neither a program nor a script").unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
    harness.configure(&format!("[runtime]\npath = {runtime:?}\n"));
    let output = harness.run(&["--log=log", "--log-format", "json", "state", "id"]);
    let expected =
        format!("nri-container-runtime: cannot run {}: Exec format error (os error 8)\n", {
            runtime.display()
        });
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected));
    let log = fs::read_to_string(harness.path("log")).unwrap();
    assert!(log.contains("Exec format error"), "{log}");
}

/// Calls with fewer and with more arguments than the entry point has space for (64), each with a
/// long argument.
#[test]
fn any_number_of_arguments_is_passed_through() {
    let harness = WrapperHarness::new();
    // With the program, the verb, the id and the long argument, 60 make 64 arguments.
    for count in [1, 59, 60, 61, 1000] {
        harness.fake.clear();
        let long = "x".repeat(100_000);
        let arguments: Vec<&str> =
            ["exec", "id", &long].into_iter().chain(std::iter::repeat_n("a", count)).collect();
        let output = harness.run(&arguments);
        assert!(output.status.success(), "{count}: {}", stderr(&output));
        let call = harness.fake.calls().remove(0);
        assert_eq!(crate::harness::argv(&call)[1..], arguments[..], "{count}");
    }
}
