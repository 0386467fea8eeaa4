//! Comparison of our `nri.proto` with that of upstream's Go module: every message, field, enum
//! value and method, as descriptors. Comments, order and layout do not count.
//!
//! The module is found by the Go toolchain. The version that our tests use is in
//! `integration/plugins/go/go.mod`.

use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Upstream's module.
pub const MODULE: &str = "github.com/containerd/nri";

/// Directories of Go that are not in every `PATH`.
const GO_DIRECTORIES: &str = ":/usr/local/go/bin:/usr/lib/go/bin";

/// Error of a question about upstream's module.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// There is no Go toolchain.
    #[error("cannot run go: {0}; install the Go toolchain, which finds upstream's module")]
    NoGo(#[source] io::Error),
    /// The Go toolchain failed.
    #[error(
        "go {arguments}: {message}; versions that are not in Go's module cache come from the \
         network (GOPROXY)"
    )]
    Go {
        /// Arguments of the command.
        arguments: String,
        /// What it wrote to standard error.
        message: String,
    },
    /// The module's protocol cannot be parsed.
    #[error("cannot parse {}: {why}", path.display())]
    Proto {
        /// The file.
        path: PathBuf,
        /// Why it cannot be parsed.
        why: String,
    },
}

/// Directory of the Go module of the test plugins, whose `go.mod` pins upstream's version.
pub fn plugin_module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/plugins/go")
}

/// Runs the Go toolchain in this directory, and returns its standard output.
///
/// # Errors
/// The toolchain is missing or fails.
pub fn go(dir: &Path, arguments: &[&str]) -> Result<String, UpstreamError> {
    let path = std::env::var("PATH").unwrap_or_default() + GO_DIRECTORIES;
    // Found in our PATH, not in the extended one, unless a shell looks it up.
    let mut command = Command::new("sh");
    command.args(["-c", "exec go \"$@\"", "go"]).args(arguments).current_dir(dir);
    let output = command.env("PATH", path).output().map_err(UpstreamError::NoGo)?;
    if output.status.code() == Some(127) {
        return Err(UpstreamError::NoGo(io::ErrorKind::NotFound.into()));
    }
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
        return Err(UpstreamError::Go { arguments: arguments.join(" "), message });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the directory of the module in this version, which is downloaded if need be. Without a
/// version: that of the `go.mod` in `dir`.
///
/// # Errors
/// The toolchain is missing, or the module cannot be downloaded.
pub fn module_dir(dir: &Path, version: Option<&str>) -> Result<PathBuf, UpstreamError> {
    let pinned = pinned_version(dir)?;
    let module = format!("{MODULE}@{}", version.unwrap_or(&pinned));
    let found = go(dir, &["mod", "download", "-json", &module])?;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap_or_default();
    match found["Dir"].as_str() {
        Some(found) => Ok(found.into()),
        None => Err(UpstreamError::Go {
            arguments: format!("mod download {module}"),
            message: found["Error"].as_str().unwrap_or("it names no directory").to_owned(),
        }),
    }
}

/// Returns the version in the `go.mod` of this directory.
///
/// # Errors
/// The toolchain is missing or fails.
pub fn pinned_version(dir: &Path) -> Result<String, UpstreamError> {
    go(dir, &["list", "-m", "-f", "{{.Version}}", MODULE])
}

/// Returns the newest released version of the module.
///
/// # Errors
/// The toolchain is missing, or the versions cannot be listed.
pub fn newest_version() -> Result<String, UpstreamError> {
    let arguments = ["list", "-m", "-versions", MODULE];
    let listed = go(&plugin_module(), &arguments)?;
    // The module, then its versions in ascending order. A hyphen marks a pre-release.
    let newest = listed.split_whitespace().skip(1).filter(|version| !version.contains('-'));
    newest.last().map(str::to_owned).ok_or_else(|| UpstreamError::Go {
        arguments: arguments.join(" "),
        message: "no released version".to_owned(),
    })
}

/// The elements of a protocol by their names, such as `ConfigureRequest.config`, each with all that
/// both sides have to agree on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protocol(BTreeMap<String, String>);

/// A difference of upstream's protocol from ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only upstream has the element.
    Added(String, String),
    /// Only we have the element.
    Removed(String, String),
    /// The element is another one: ours, then upstream's.
    Changed(String, String, String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(name, what) => write!(f, "adds {name}: {what}"),
            Self::Removed(name, what) => write!(f, "removes {name}: {what}"),
            Self::Changed(name, ours, theirs) => write!(f, "changes {name}: {ours} to {theirs}"),
        }
    }
}

impl Protocol {
    /// Returns our protocol.
    pub fn ours() -> Self {
        Self::of(nri_api::proto::file_descriptor().proto())
    }

    /// Returns the protocol of upstream's module in this directory.
    ///
    /// # Errors
    /// Its file cannot be parsed.
    pub fn of_module(dir: &Path) -> Result<Self, UpstreamError> {
        let path = dir.join("pkg/api/api.proto");
        let mut parser = protobuf_parse::Parser::new();
        parser.pure().include(dir).input(&path);
        let error = |why: String| UpstreamError::Proto { path: path.clone(), why };
        let files = parser.file_descriptor_set().map_err(|e| error(format!("{e:#}")))?;
        let file = files.file.iter().find(|file| file.name().ends_with("api.proto"));
        file.map(Self::of).ok_or_else(|| error("it has no descriptor".to_owned()))
    }

    /// Returns the protocol of a descriptor.
    pub fn of(file: &FileDescriptorProto) -> Self {
        let mut all = Self::default();
        all.add("package", file.package().to_owned());
        file.message_type.iter().for_each(|message| all.add_message("", message));
        file.enum_type.iter().for_each(|values| all.add_enum("", values));
        for service in &file.service {
            all.add(service.name(), "service".to_owned());
            for method in &service.method {
                let stream = |streams| if streams { "stream " } else { "" };
                let what = format!(
                    "rpc ({}{}) returns ({}{})",
                    stream(method.client_streaming()),
                    short(method.input_type()),
                    stream(method.server_streaming()),
                    short(method.output_type())
                );
                all.add(&format!("{}.{}", service.name(), method.name()), what);
            }
        }
        all
    }

    /// Returns the differences of upstream's protocol from this one.
    pub fn differences(&self, upstream: &Self) -> Vec<Difference> {
        let of_ours = self.0.iter().filter_map(|(name, ours)| match upstream.0.get(name) {
            None => Some(Difference::Removed(name.clone(), ours.clone())),
            Some(theirs) if theirs == ours => None,
            Some(theirs) => Some(Difference::Changed(name.clone(), ours.clone(), theirs.clone())),
        });
        let added = upstream.0.iter().filter(|(name, _)| !self.0.contains_key(*name));
        let added = added.map(|(name, what)| Difference::Added(name.clone(), what.clone()));
        of_ours.chain(added).collect()
    }

    fn add(&mut self, name: &str, what: String) {
        self.0.insert(name.to_owned(), what);
    }

    fn add_message(&mut self, outer: &str, message: &DescriptorProto) {
        let name = format!("{outer}{}", message.name());
        let kind = if message.options.map_entry() { "map entry" } else { "message" };
        self.add(&name, kind.to_owned());
        for field in &message.field {
            let oneof = field.oneof_index.and_then(|index| {
                message.oneof_decl.get(usize::try_from(index).ok()?).map(|oneof| oneof.name())
            });
            self.add(&format!("{name}.{}", field.name()), describe(field, oneof));
        }
        let outer = format!("{name}.");
        message.nested_type.iter().for_each(|nested| self.add_message(&outer, nested));
        message.enum_type.iter().for_each(|nested| self.add_enum(&outer, nested));
    }

    fn add_enum(&mut self, outer: &str, values: &EnumDescriptorProto) {
        let name = format!("{outer}{}", values.name());
        self.add(&name, "enum".to_owned());
        for value in &values.value {
            self.add(&format!("{name}.{}", value.name()), format!("value {}", value.number()));
        }
    }
}

/// Describes a field. Whether a list of numbers is packed does not count: decoders accept both.
fn describe(field: &FieldDescriptorProto, oneof: Option<&str>) -> String {
    let label = match field.label() {
        Label::LABEL_REPEATED => "repeated ",
        Label::LABEL_REQUIRED => "required ",
        Label::LABEL_OPTIONAL if field.proto3_optional() => "optional ",
        Label::LABEL_OPTIONAL => "",
    };
    let kind = match field.type_() {
        Type::TYPE_MESSAGE | Type::TYPE_ENUM => short(field.type_name()).to_owned(),
        other => format!("{other:?}").trim_start_matches("TYPE_").to_lowercase(),
    };
    let oneof = oneof.map_or_else(String::new, |oneof| format!(" in oneof {oneof}"));
    format!("{label}{kind} = {}{oneof}", field.number())
}

/// Returns the name of a type without the package, which is compared once.
fn short(name: &str) -> &str {
    name.strip_prefix(".nri.pkg.api.v1alpha1.").unwrap_or(name)
}
