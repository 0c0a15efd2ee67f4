//! The engine stands without Python: nothing of it may reach this crate's dependency graph.

use std::process::Command;

#[test]
fn no_python_in_the_dependency_graph() -> Result<(), Box<dyn std::error::Error>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "otolith-core",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let tree = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(tree.contains("redb"), "the graph was not listed:\n{tree}");
    let python: Vec<&str> =
        tree.lines().filter(|line| line.contains("pyo3") || line.starts_with("numpy")).collect();
    assert!(python.is_empty(), "{python:?}");
    Ok(())
}
