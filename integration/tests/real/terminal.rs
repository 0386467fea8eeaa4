//! `run` in a terminal: its size, the interrupt key, the exit code.

use nri_integration::*;

/// Script of a container that counts interrupts, prints the count or the size of the terminal on
/// request, and exits with 7.
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

/// Runs [`SCRIPT`] in a terminal. Returns whether a change of the terminal's size reaches it.
fn play(command: &std::process::Command) -> bool {
    let terminal = Terminal::run(command);
    terminal.wait_for("ready.");
    // Runtimes pass a change on with a delay, and may miss one: change and request it repeatedly.
    let resized = (1..=100).any(|n| {
        terminal.resize(30 + n, 101);
        terminal.write("size\n");
        wait_until("the printed size", || {
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
