//! Test of `run` in a terminal: changes of the terminal's size and the interrupt key reach the
//! container, and `run` exits with the exit code of the container.

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

/// Runs [`SCRIPT`] in a terminal. Returns whether a change of the terminal's size reaches the
/// script.
fn run_script(command: &std::process::Command) -> bool {
    let terminal = Terminal::run(command);
    terminal.wait_for("ready.");
    // Runtimes pass on a change of the size with a delay and may miss a change, so change and query
    // the size repeatedly.
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
    assert_eq!(terminal.wait_for_exit(), Some(7));
    resized
}

#[test]
fn size_changes_and_interrupts_of_a_terminal_reach_the_container() {
    for_each_runtime("terminal", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).terminal().arguments(&["/bin/sh", "-c", SCRIPT]).make();
        let original = bundle.bytes();
        let call = |mut command: std::process::Command| {
            command.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
            run_script(&command)
        };
        let bare_passes_on_size = call(runtime.command(&node.root()));
        if !bare_passes_on_size {
            limitation(
                "terminal size",
                &format!("{} does not pass on changes of the size", runtime.name),
            );
        }
        assert_eq!(
            call(node.wrapper()),
            bare_passes_on_size,
            "the wrapper and the bare runtime differ in whether they pass on changes of the size"
        );
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        assert_eq!(bundle.bytes(), original);
    });
}
