//! Selects the inputs of a target that together have the most features: `select CONTROL MAX TO`
//! reads the control file of libFuzzer's `-merge=1`, which lists the features of each input,
//! chooses at most `MAX` inputs greedily, and copies them to the folder `TO`, with numbers as
//! names.
//!
//! `-merge=1` alone would keep every input that adds a feature: thousands of inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum size of an input in bytes. Larger inputs would enlarge the repository too much.
const LARGEST: u64 = 4096;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [control, max, to] = &arguments[..] else { panic!("usage: select CONTROL MAX TO") };
    let mut inputs = read(&std::fs::read_to_string(control).expect("read the control file"));
    inputs.retain(|input| input.size <= LARGEST);
    let all: BTreeSet<u32> = inputs.iter().flat_map(|i| &i.features).copied().collect();
    let (mut reached, mut chosen) = (BTreeSet::new(), Vec::new());
    while chosen.len() < max.parse().expect("MAX is a number") {
        let gain = |input: &Input| input.features.difference(&reached).count();
        // The input with the most new features; of several such inputs, the smallest.
        let best = inputs.iter().max_by_key(|i| (gain(i), std::cmp::Reverse(i.size)));
        let Some(best) = best.filter(|best| gain(best) > 0) else { break };
        reached.extend(&best.features);
        chosen.push(best.path.clone());
    }
    let to = Path::new(to);
    std::fs::create_dir_all(to).expect("create the folder TO");
    for (number, path) in chosen.iter().enumerate() {
        std::fs::copy(path, to.join(format!("{number:02}"))).expect("copy an input");
    }
    println!(
        "{}: {} of {} inputs, {} of {} features",
        to.display(),
        chosen.len(),
        inputs.len(),
        reached.len(),
        all.len()
    );
}

struct Input {
    path: PathBuf,
    size: u64,
    features: BTreeSet<u32>,
}

/// Parses a control file. Its lines are: the number of files, the number of files of the first
/// folder, the files, then `STARTED number size` and `FT number feature…` for each file.
fn read(control: &str) -> Vec<Input> {
    let mut lines = control.lines();
    let count: usize = lines.next().and_then(|l| l.parse().ok()).expect("a number of files");
    lines.next();
    let paths: Vec<PathBuf> = lines.by_ref().take(count).map(PathBuf::from).collect();
    let (mut sizes, mut inputs) = (BTreeMap::new(), Vec::new());
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match &words[..] {
            ["STARTED", number, size] => {
                sizes.insert((*number).to_owned(), size.parse().unwrap_or(u64::MAX));
            }
            ["FT", number, features @ ..] => inputs.push(Input {
                path: paths[number.parse::<usize>().expect("a number")].clone(),
                size: sizes.get(*number).copied().unwrap_or(u64::MAX),
                features: features.iter().filter_map(|f| f.parse().ok()).collect(),
            }),
            _ => {}
        }
    }
    inputs
}
