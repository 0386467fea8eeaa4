//! A person at a terminal.

use crate::life;
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

#[test]
fn has_its_size_one_interrupt_and_the_exit_code() {
    for_each_runtime("terminal", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).terminal().arguments(&["/bin/sh", "-c", SCRIPT]).make();
        let original = bundle.bytes();
        let mut command = node.wrapper();
        command.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
        let terminal = Terminal::run(&command);
        terminal.wait_for("ready.");
        // The runtime passes the size on when it hears of a change, which may be before it listens: ask until it is so.
        let mut rows = 30;
        wait_until("the size to arrive", || {
            rows += 1;
            terminal.resize(rows, 101);
            terminal.write("size\n");
            terminal.wait_for("size ");
            let text = terminal.text();
            text.contains(" 101.").then_some(())
        });
        terminal.write("\x03");
        terminal.wait_for("interrupt 1.");
        terminal.write("count\n");
        terminal.wait_for("count ");
        assert!(terminal.text().contains("count 1."), "{}", terminal.text());
        terminal.write("quit\n");
        assert_eq!(terminal.end(), Some(7));
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life(&[]));
        assert_eq!(bundle.bytes(), original);
    });
}
