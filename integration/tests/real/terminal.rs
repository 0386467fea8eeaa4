//! A person at a terminal.

use nri_integration::*;

/// Says what it gets: interrupts, its size; ends with 7.
const SCRIPT: &str = r#"
n=0
trap 'n=$((n + 1)); echo "interrupt $n."' INT
echo "ready."
while :; do
  read -r line || continue
  case $line in
    size) echo "size $(stty size)." ;;
    count) echo "count $n." ;;
    quit) exit 7 ;;
  esac
done
"#;

/// Runs the script in a terminal; returns whether a change of its size reaches the container.
fn play(command: &std::process::Command) -> bool {
    let terminal = Terminal::run(command);
    terminal.wait_for("ready.");
    // The change is passed on some time after it was made, so ask often.
    let resized = (1..=100).any(|n| {
        terminal.resize(30 + n, 101);
        terminal.write("size\n");
        wait_until("the answer", || {
            (terminal.text().matches("size ").count() >= usize::from(n)).then_some(())
        });
        terminal.text().contains(" 101.")
    });
    terminal.write("\x03");
    terminal.wait_for("interrupt 1.");
    terminal.write("count\n");
    terminal.wait_for("count 1.");
    terminal.write("quit\n");
    assert_eq!(terminal.end(), Some(7));
    resized
}

#[test]
fn a_terminal_has_its_size_its_interrupt_and_the_exit_code() {
    for_each_runtime("terminal", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).terminal().arguments(&["/bin/sh", "-c", SCRIPT]).make();
        let original = bundle.bytes();
        let call = |mut command: std::process::Command| {
            command.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
            play(&command)
        };
        let bare = call(runtime.command(&node.root()));
        if !bare {
            limitation("terminal size", &format!("{} itself does not pass it on", runtime.name));
        }
        assert_eq!(call(node.wrapper()), bare, "the size arrives as with the bare runtime");
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        assert_eq!(bundle.bytes(), original);
    });
}
