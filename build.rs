//! Builds `decisions/`, `docs/` and `system.yaml` in, so that the tools can answer from them. The YAML becomes JSON
//! here: the Worker need not carry a reader for it.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&root);
    let mut code = String::new();
    for (constant, folder) in [("DECISIONS", "decisions"), ("DOCS", "docs")] {
        println!("cargo::rerun-if-changed={folder}");
        let mut files: Vec<_> = fs::read_dir(root.join(folder))?.collect::<Result<Vec<_>, _>>()?;
        files.sort_by_key(|file| file.file_name());
        writeln!(code, "pub const {constant}: &[Document] = &[")?;
        for file in files.iter().filter(|file| file.path().extension().is_some_and(|extension| extension == "md")) {
            let name = format!("{folder}/{}", file.file_name().to_string_lossy());
            println!("cargo::rerun-if-changed={name}");
            writeln!(code, "    Document {{ path: {name:?}, text: include_str!({:?}) }},", file.path())?;
        }
        writeln!(code, "];")?;
    }
    println!("cargo::rerun-if-changed=system.yaml");
    let system: serde_json::Value = serde_saphyr::from_str(&fs::read_to_string(root.join("system.yaml"))?)?;
    writeln!(code, "pub const SYSTEM: &str = {:?};", system.to_string())?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("documents.rs"), code)?;
    Ok(())
}
