//! The status as a picture: the machine as nested boxes, and each CPU in the colour of its owner.

use crate::{
    hardware::cpuset::CpuSet,
    placed::Kind,
    status::{Status, StatusContainer},
};
use maud::{Markup, html};

/// Width and height of a CPU.
const CPU: usize = 28;
/// Space between and around boxes.
const GAP: usize = 6;
/// Height of the name of a group, and of a line of the legend.
const LINE: usize = 18;
/// Width of a character, about.
const CHARACTER: usize = 7;
/// Cores in a row of a group, and groups in a row of a group around.
const CORES_IN_A_ROW: usize = 8;
const GROUPS_IN_A_ROW: usize = 4;

const RESERVED: &str = "#9aa0a6";
const SHARED: &str = "#e8eaed";
const UNUSED: &str = "#ffffff";
/// Colours of containers with exclusive CPUs, in turn.
const COLOURS: [&str; 10] = [
    "#8ab4f8", "#f28b82", "#81c995", "#fdd663", "#c58af9", "#78d9ec", "#fcad70", "#ff8bcb",
    "#a8dab5", "#d7aefb",
];

/// A part of the picture with its size.
struct Block {
    width: usize,
    height: usize,
    content: Markup,
}

/// Returns the picture.
pub fn picture(status: &Status) -> String {
    let owners = owners(status);
    let machine = block(status, 0, &owners);
    let legend = legend(status, &owners);
    let width = machine.width.max(legend.width) + 2 * GAP;
    let height = machine.height + legend.height + 3 * GAP;
    let below = machine.height + 2 * GAP;
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
            viewBox={ "0 0 " (width) " " (height) } font-family="sans-serif" font-size="12" {
            rect width=(width) height=(height) fill="#ffffff" {}
            g transform={ "translate(" (GAP) " " (GAP) ")" } { (machine.content) }
            g transform={ "translate(" (GAP) " " (below) ")" } { (legend.content) }
        }
    };
    picture.into_string()
}

/// Returns the containers with exclusive CPUs, and their colours.
fn owners(status: &Status) -> Vec<(&StatusContainer, &'static str)> {
    let exclusive = status.containers.iter().filter(|c| c.kind == Kind::Exclusive);
    exclusive.zip(COLOURS.iter().copied().cycle()).collect()
}

fn block(status: &Status, index: usize, owners: &[(&StatusContainer, &'static str)]) -> Block {
    let domain = &status.domains[index];
    let children: Vec<usize> = (index + 1..status.domains.len())
        .filter(|i| status.domains[*i].parent == Some(index))
        .collect();
    if children.is_empty() {
        return core(status, &domain.cpus, owners);
    }
    let is_of_cores =
        children.iter().all(|child| status.domains.iter().all(|d| d.parent != Some(*child)));
    let in_a_row = if is_of_cores { CORES_IN_A_ROW } else { GROUPS_IN_A_ROW };
    let blocks: Vec<Block> = children.iter().map(|child| block(status, *child, owners)).collect();
    let title = domain.names.join(", ");
    let (mut width, mut y, mut rows) = (title.len() * CHARACTER, LINE + GAP, Vec::new());
    for row in blocks.chunks(in_a_row) {
        let mut x = GAP;
        for block in row {
            let place = format!("translate({x} {y})");
            rows.push(html! { g transform=(place) { (block.content) } });
            x += block.width + GAP;
        }
        width = width.max(x - GAP);
        y += row.iter().map(|block| block.height).max().unwrap_or_default() + GAP;
    }
    let (width, height) = (width + GAP, y);
    let content = html! {
        rect width=(width) height=(height) rx="4" fill="none" stroke="#9aa0a6" {}
        text x=(GAP) y=(LINE - 3) fill="#3c4043" { (title) }
        @for row in &rows { (row) }
    };
    Block { width, height, content }
}

fn core(status: &Status, cpus: &CpuSet, owners: &[(&StatusContainer, &'static str)]) -> Block {
    let colour = |cpu: usize| {
        let owner = owners.iter().find(|(container, _)| container.cpus.contains(cpu));
        match owner {
            Some((_, colour)) => *colour,
            None if status.reserved.contains(cpu) || status.isolated.contains(cpu) => RESERVED,
            None if status.shared.contains(cpu) => SHARED,
            None => UNUSED,
        }
    };
    let title = |cpu: usize| {
        let owner = owners.iter().find(|(container, _)| container.cpus.contains(cpu));
        owner.map_or_else(|| format!("CPU {cpu}"), |(c, _)| format!("CPU {cpu}: {}", c.name))
    };
    let content = html! {
        @for (place, cpu) in cpus.iter().enumerate() {
            rect x=(place * CPU) width=(CPU) height=(CPU) fill=(colour(cpu)) stroke="#3c4043" {
                title { (title(cpu)) }
            }
            text x=(place * CPU + CPU / 2) y=(CPU / 2 + 4) text-anchor="middle" font-size="10" {
                (cpu)
            }
        }
    };
    Block { width: cpus.len() * CPU, height: CPU, content }
}

fn legend(status: &Status, owners: &[(&StatusContainer, &'static str)]) -> Block {
    let mut lines: Vec<(&str, String)> = owners
        .iter()
        .map(|(c, colour)| (*colour, format!("{} ({}): {}", c.name, c.class, c.cpus)))
        .collect();
    let sharing = status.containers.iter().filter(|c| c.kind == Kind::Shared).count();
    lines.push((SHARED, format!("shared by {sharing} containers: {}", status.shared)));
    if !status.reserved.is_empty() {
        lines.push((RESERVED, format!("reserved: {}", status.reserved)));
    }
    let width = lines.iter().map(|(_, text)| text.chars().count()).max().unwrap_or_default();
    let content = html! {
        @for (index, (colour, text)) in lines.iter().enumerate() {
            rect y=(index * LINE) width=(LINE - 4) height=(LINE - 4) fill=(colour)
                stroke="#3c4043" {}
            text x=(LINE + GAP) y=(index * LINE + LINE - 6) { (text) }
        }
    };
    Block { width: width * CHARACTER + LINE + GAP, height: lines.len() * LINE, content }
}
