//! The header declares what the library exports: functions, types, sizes, numbers.

mod compiler;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::mem::{offset_of, size_of};

use compiler::{compiler, include, root, succeed};
use edbatch_c::{edbatch_calls, edbatch_options, edbatch_session_statistics};

/// The types of a function: of its result, then names and types of its arguments.
type Signature = (String, Vec<(String, String)>);

fn header() -> String {
    std::fs::read_to_string(include().join("edbatch.h")).unwrap()
}

/// Splits a declaration of an argument, such as `const char *name`, into type and name.
fn type_and_name(declaration: &str) -> (String, String) {
    let text = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
    let start = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    (text[..start].trim().to_string(), text[start..].to_string())
}

/// The functions of the header.
fn declared() -> BTreeMap<String, Signature> {
    let header = header();
    let prototypes = header.split("\nEDBATCH_API ").skip(1);
    let functions = prototypes.map(|rest| {
        let (prototype, _) = rest.split_once(");").unwrap();
        let (function, arguments) = prototype.split_once('(').unwrap();
        let (result, name) = type_and_name(function);
        let arguments = arguments.split(',').filter(|argument| *argument != "void");
        let arguments = arguments.map(type_and_name).map(|(kind, name)| (name, kind)).collect();
        (name, (result, arguments))
    });
    functions.collect()
}

/// The type of the header for a type of Rust.
fn in_c(rust: &str) -> String {
    let inner = |wrapper: &str| rust.strip_prefix(wrapper)?.strip_prefix('<')?.strip_suffix('>');
    if let Some(inner) = inner("Array") {
        return format!("const {} *", in_c(inner));
    }
    if let Some(inner) = inner("Out").or_else(|| inner("Object")).or_else(|| inner("Freed")) {
        return format!("{} *", in_c(inner));
    }
    if let Some(inner) = inner("ConstObject") {
        return format!("const {} *", in_c(inner));
    }
    if let Some(inner) = inner("Made") {
        return format!("{} **", in_c(inner));
    }
    let name = match rust {
        "()" => "void",
        "u16" | "Kind" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "f32" => "float",
        "Handle" => "edbatch_value",
        "Text" | "*const c_char" => "const char *",
        "FileBytes" => "const void *",
        "Options" => "const edbatch_options *",
        "NewOptions" => "edbatch_options *",
        "NewStatistics" => "edbatch_session_statistics *",
        "edbatch_engine" | "edbatch_session" | "edbatch_calls" => rust,
        _ => panic!("a type that the header has not: {rust}"),
    };
    name.into()
}

/// The functions of `exports.rs`.
fn exported() -> BTreeMap<String, Signature> {
    let source = std::fs::read_to_string(root().join("src/exports.rs")).unwrap();
    let functions = source.split("#[unsafe(no_mangle)]\npub extern \"C\" fn ").skip(1);
    let functions = functions.map(|rest| {
        let (signature, _) = rest.split_once(" {").unwrap();
        let (name, rest) = signature.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(')').unwrap();
        let result = result.strip_prefix(" -> ").unwrap_or("()");
        let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
        let arguments = arguments.map(|argument| {
            let (name, kind) = argument.split_once(": ").unwrap();
            (name.to_string(), in_c(kind))
        });
        (name.to_string(), (in_c(result), arguments.collect()))
    });
    functions.collect()
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let (mut declared, exported) = (declared(), exported());
    assert_eq!(declared.len(), 26);
    for (result, arguments) in declared.values_mut() {
        // A status is an int32_t in Rust.
        for kind in [&mut *result].into_iter().chain(arguments.iter_mut().map(|(_, kind)| kind)) {
            if kind == "edbatch_status" {
                *kind = "int32_t".into();
            }
        }
    }
    assert_eq!(declared, exported);
    assert!(header().contains("\ntypedef int32_t edbatch_status;\n"));
    assert!(header().contains("\ntypedef int64_t edbatch_value;\n"));
}

fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: the library returns its own strings, which end in a zero byte and stay.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

#[test]
fn versions_and_statuses_are_those_of_the_header() {
    let header = header();
    let define = format!("#define EDBATCH_ABI_VERSION {}\n", edbatch_c::edbatch_abi_version());
    assert!(header.contains(&define), "{define}");
    assert_eq!(text(edbatch_c::edbatch_version()), env!("CARGO_PKG_VERSION"));
    let mut statuses = 0;
    for line in header.lines().map(str::trim).filter(|line| line.starts_with("EDBATCH_")) {
        let Some((name, rest)) = line.split_once(" = ") else { continue };
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number: String = digits.chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(text(edbatch_c::edbatch_status_name(number.parse().unwrap())), name);
        statuses += 1;
    }
    assert_eq!(statuses, 13);
    for unknown in [-1, statuses, i32::MIN, i32::MAX] {
        assert_eq!(text(edbatch_c::edbatch_status_name(unknown)), "unknown");
    }
}

/// C code that does not compile unless the struct has the size and the offsets of Rust's.
macro_rules! layout {
    ($Struct:ident { $($member:ident)* }) => {{
        let mut code = assertion(stringify!($Struct), "size", size_of::<$Struct>(), format!(
            "sizeof({})", stringify!($Struct)
        ));
        $(
            let c = format!("offsetof({}, {})", stringify!($Struct), stringify!($member));
            let rust = offset_of!($Struct, $member);
            code += &assertion(stringify!($Struct), stringify!($member), rust, c);
        )*
        // A member more in Rust's struct, or one less here, does not compile.
        let _ = |whole: $Struct| { let $Struct { $($member: _),* } = whole; };
        code
    }};
}

fn assertion(of: &str, name: &str, rust: usize, c: String) -> String {
    format!("typedef char {of}_at_{name}[{c} == {rust} ? 1 : -1];\n")
}

#[test]
fn structs_have_the_layout_of_the_header() {
    let Some(mut cc) = compiler("CC", "cc") else { return };
    let mut code = String::from("#include <edbatch.h>\n");
    code += &layout!(edbatch_options { size threads precision device memory_limit fold_tables });
    code += &layout!(edbatch_calls {
        calls cells operands operand_count offsets emits emit gives give_records give_elements
        give_floats
    });
    code += &layout!(edbatch_session_statistics {
        size stored pending stored_bytes held_bytes weight_bytes calls runs batches
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.c");
    std::fs::write(&file, &code).unwrap();
    cc.args(["-std=c99", "-fsyntax-only", "-I"]).arg(include()).arg(&file);
    succeed(&mut cc);
    // A wrong offset is found.
    std::fs::write(&file, code.replacen(" == 40 ?", " == 48 ?", 1)).unwrap();
    assert!(!cc.output().unwrap().status.success());
}

#[test]
fn the_header_compiles_alone_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    for (variable, default, name, standards) in
        [("CC", "cc", "alone.c", ["c99", "c11"]), ("CXX", "c++", "alone.cpp", ["c++11", "c++17"])]
    {
        let file = folder.path().join(name);
        std::fs::write(&file, "#include <edbatch.h>\n").unwrap();
        for standard in standards {
            for define in ["-DNOTHING", "-DEDBATCH_STATIC"] {
                let Some(mut compiler) = compiler(variable, default) else { return };
                compiler.arg(format!("-std={standard}")).arg(define);
                compiler.args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
                succeed(compiler.arg(include()).arg(&file));
            }
        }
    }
}
