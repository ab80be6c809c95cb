//! Compares the size, alignment and all offsets of the structures that modules share with the kernel.

use std::collections::{BTreeMap, BTreeSet};

use cargo_sdt::internal::arch::Arch;
use conformance::layout::{Field, Layout, layouts};
use conformance::sources::{Build, Rust};
use conformance::unit::Unit;

use crate::{c, rust, zig};

/// A structure in C, and its counterpart in Rust: names only, no numbers.
struct Shared {
    c: &'static str,
    rust: &'static str,
    /// The fields: C's name and Rust's.
    fields: &'static [(&'static str, &'static str)],
    extent: Extent,
}

/// The part of a structure that Rust declares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Every field.
    Whole,
    /// Its size. Only the used fields are fields in Rust.
    Size,
}

const METADATA: &[Shared] = &[
    Shared {
        c: "mod_metadata",
        rust: "sdt_core::freebsd::module::ModMetadata",
        fields: &[
            ("md_version", "version"),
            ("md_type", "kind"),
            ("md_data", "data"),
            ("md_cval", "name"),
        ],
        extent: Extent::Whole,
    },
    Shared {
        c: "mod_depend",
        rust: "sdt_core::freebsd::module::ModDepend",
        fields: &[
            ("md_ver_minimum", "minimum"),
            ("md_ver_preferred", "preferred"),
            ("md_ver_maximum", "maximum"),
        ],
        extent: Extent::Whole,
    },
    Shared {
        c: "moduledata",
        rust: "sdt_core::freebsd::module::ModuleData",
        fields: &[("name", "name"), ("evhand", "handler"), ("priv", "private")],
        extent: Extent::Whole,
    },
    Shared {
        c: "sysinit",
        rust: "sdt_core::freebsd::module::SysInit",
        fields: &[
            ("subsystem", "subsystem"),
            ("order", "order"),
            ("next", "next"),
            ("func", "function"),
            ("udata", "argument"),
        ],
        extent: Extent::Whole,
    },
];

const RECORDS: &[Shared] = &[
    Shared {
        c: "sdt_provider",
        rust: "sdt_core::freebsd::native::record::Provider",
        fields: &[
            ("name", "name"),
            ("prov_entry", "entry"),
            ("id", "id"),
            ("sdt_refs", "references"),
        ],
        extent: Extent::Whole,
    },
    Shared {
        c: "sdt_argtype",
        rust: "sdt_core::freebsd::native::record::ArgTypeRecord",
        fields: &[
            ("ndx", "index"),
            ("type", "native"),
            ("xtype", "translated"),
            ("argtype_entry", "entry"),
            ("probe", "probe"),
        ],
        extent: Extent::Whole,
    },
];

const PROBE: Shared = Shared {
    c: "sdt_probe",
    rust: "sdt_core::freebsd::native::record::Probe",
    fields: &[
        ("version", "version"),
        ("prov", "provider"),
        ("probe_entry", "entry"),
        ("argtype_list", "argtypes"),
        ("tracepoint_list", "tracepoints"),
        ("mod", "module"),
        ("func", "function"),
        ("name", "name"),
        ("id", "id"),
        ("n_args", "arguments"),
        ("sdtp_lf", "file"),
    ],
    extent: Extent::Whole,
};

/// [`PROBE`] before 15.
const PROBE_WITHOUT_TRACEPOINTS: Shared = Shared {
    fields: &[
        ("version", "version"),
        ("prov", "provider"),
        ("probe_entry", "entry"),
        ("argtype_list", "argtypes"),
        ("mod", "module"),
        ("func", "function"),
        ("name", "name"),
        ("id", "id"),
        ("n_args", "arguments"),
        ("sdtp_lf", "file"),
    ],
    ..PROBE
};

/// The trap frame that the provider route uses, by architecture.
const fn trap_frame(arch: Arch) -> Shared {
    Shared {
        c: "trapframe",
        rust: "sdt_core::freebsd::provider::machdep::target::TrapFrame",
        fields: match arch {
            Arch::X86_64 => &[("tf_rip", "rip")],
            Arch::Aarch64 => &[("tf_sp", "sp"), ("tf_lr", "lr"), ("tf_elr", "elr")],
            Arch::Riscv64 => &[("tf_sepc", "sepc")],
        },
        extent: Extent::Size,
    }
}

/// The lock that the provider route takes.
const LOCK: Shared =
    Shared { c: "sx", rust: "sdt_core::sync::system::Sx", fields: &[], extent: Extent::Size };

type Layouts = BTreeMap<String, Layout>;

/// C's layouts; the alignments are in variables.
fn c_layouts(freebsd: u32, arch: Arch) -> Option<Layouts> {
    let object = c(&zig(freebsd)?, arch, "layouts.c", &["-g", "-fdata-sections"]);
    let mut layouts = layouts(&object).unwrap();
    let unit = Unit::parse(&object).unwrap();
    for (name, layout) in &mut layouts {
        if let Ok((section, _)) = unit.section(&format!(".rodata.alignment_of_{name}")) {
            layout.align = Some(u64::from_le_bytes(section.bytes[..8].try_into().unwrap()));
        }
    }
    Some(layouts)
}

impl Shared {
    /// Compares the structure in C with that in Rust.
    fn check(&self, about: &str, c: &Layouts, rust: &Layouts) {
        let about = format!("{about}: struct {} and {}", self.c, self.rust);
        let c = c.get(self.c).unwrap_or_else(|| panic!("{about}: not in C"));
        let rust = rust.get(self.rust).unwrap_or_else(|| panic!("{about}: not in Rust"));
        for (c_name, rust_name) in self.fields {
            let (c, rust) = (c.fields.get(*c_name), rust.fields.get(*rust_name));
            assert!(c.is_some(), "{about}: no {c_name}");
            assert_eq!(c, rust, "{about}: {c_name} and {rust_name}");
        }
        assert_eq!(c.size, rust.size, "{about}: the size");
        assert!(c.align.is_some(), "{about}: no alignment");
        assert_eq!(c.align, rust.align, "{about}: the alignment");
        if self.extent == Extent::Whole {
            let names = |layout: &Layout| layout.fields.keys().cloned().collect::<BTreeSet<_>>();
            let listed: BTreeSet<_> = self.fields.iter().map(|(c, _)| (*c).to_owned()).collect();
            assert_eq!(names(c), listed, "{about}: C's fields");
            let listed: BTreeSet<_> = self.fields.iter().map(|(_, r)| (*r).to_owned()).collect();
            assert_eq!(names(rust), listed, "{about}: Rust's fields");
        }
    }
}

/// The fields that the example's event handler reads: one pointer in each structure, of which Rust declares only the
/// offset.
fn check_exec_offsets(about: &str, c: &Layouts, rust: &Rust) {
    let unit = Unit::parse(&rust.probes).unwrap();
    let (section, _) = unit.section(".rodata.EXEC_OFFSETS").unwrap();
    let offset = |at: usize| {
        let bytes = section.bytes[at..at + 8].try_into().unwrap();
        Field { offset: u64::from_le_bytes(bytes), size: 8 }
    };
    assert_eq!(c["image_params"].fields["args"], offset(0), "{about}: args");
    assert_eq!(c["image_args"].fields["fname"], offset(8), "{about}: fname");
}

#[test]
fn structures_of_15() {
    for arch in Arch::ALL {
        let Some(c) = c_layouts(15, arch) else { return };
        let rust = rust(arch, Build::Native(15));
        for shared in METADATA.iter().chain(RECORDS).chain([&PROBE]) {
            shared.check(&format!("FreeBSD 15, {arch}"), &c, &rust.layouts);
        }
        check_exec_offsets(&format!("FreeBSD 15, {arch}"), &c, &rust);
        // A bare number in Rust.
        let version = Layout { size: 4, align: Some(4), fields: fields(&[("mv_version", 0, 4)]) };
        assert_eq!(c["mod_version"], version, "{arch}");
        // The fields that assembly writes; the addresses are compared with the records.
        let site = fields(&[
            ("probe", 0, 8),
            ("patchpoint", 8, 8),
            ("target", 16, 8),
            ("tracepoint_entry", 24, 8),
        ]);
        let site = Layout { size: 32, align: Some(8), fields: site };
        assert_eq!(c["sdt_tracepoint"], site, "{arch}");
    }
}

#[test]
fn structures_of_14() {
    for arch in Arch::ALL {
        let Some(c) = c_layouts(14, arch) else { return };
        let rust = rust(arch, Build::Native(14));
        for shared in METADATA.iter().chain(RECORDS).chain([&PROBE_WITHOUT_TRACEPOINTS]) {
            shared.check(&format!("FreeBSD 14, {arch}"), &c, &rust.layouts);
        }
        check_exec_offsets(&format!("FreeBSD 14, {arch}"), &c, &rust);
    }
}

#[test]
fn structures_of_the_provider_route() {
    for arch in Arch::ALL {
        let Some(c) = c_layouts(15, arch) else { return };
        let rust = rust(arch, Build::Provider);
        for shared in [trap_frame(arch), LOCK] {
            shared.check(&format!("{arch}"), &c, &rust.layouts);
        }
    }
}

fn fields(list: &[(&str, u64, u64)]) -> BTreeMap<String, Field> {
    let field = |&(name, offset, size): &(&str, _, _)| (name.to_owned(), Field { offset, size });
    list.iter().map(field).collect()
}

/// Compares a structure of releases whose headers are not available with a layout that was copied from their sources.
fn check_written(rust: &Layouts, name: &str, size: u64, align: u64, list: &[(&str, u64, u64)]) {
    let layout = rust.get(name).unwrap_or_else(|| panic!("no {name}"));
    let written = Layout { size, align: Some(align), fields: fields(list) };
    assert_eq!(*layout, written, "{name}");
}

/// `sys/sys/sdt.h` of 10.2, 10.4, 11.0, 12.1 and 13-CURRENT have the same layout. In `sys/sys/kernel.h` before 14, a SYSINIT has
/// no list entry.
#[test]
fn structures_before_14() {
    for arch in Arch::ALL {
        let rust = rust(arch, Build::Native(13));
        let record = |name| format!("sdt_core::freebsd::native::record::{name}");
        check_written(
            &rust.layouts,
            &record("Provider"),
            40,
            8,
            &[("name", 0, 8), ("entry", 8, 16), ("id", 24, 8), ("references", 32, 4)],
        );
        check_written(
            &rust.layouts,
            &record("Probe"),
            96,
            8,
            &[
                ("version", 0, 4),
                ("provider", 8, 8),
                ("entry", 16, 16),
                ("argtypes", 32, 16),
                ("module", 48, 8),
                ("function", 56, 8),
                ("name", 64, 8),
                ("id", 72, 8),
                ("arguments", 80, 4),
                ("file", 88, 8),
            ],
        );
        check_written(
            &rust.layouts,
            &record("ArgTypeRecord"),
            48,
            8,
            &[
                ("index", 0, 4),
                ("native", 8, 8),
                ("translated", 16, 8),
                ("entry", 24, 16),
                ("probe", 40, 8),
            ],
        );
        check_written(
            &rust.layouts,
            "sdt_core::freebsd::module::SysInit",
            24,
            8,
            &[("subsystem", 0, 4), ("order", 4, 4), ("function", 8, 8), ("argument", 16, 8)],
        );
    }
}

/// `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h`, main, which is not among the headers.
#[test]
fn structures_of_dtrace() {
    for arch in Arch::ALL {
        let rust = rust(arch, Build::Provider);
        check_written(
            &rust.layouts,
            "dtrace_abi::ops::ProviderOps",
            80,
            8,
            &[
                ("provide", 0, 8),
                ("provide_module", 8, 8),
                ("enable", 16, 8),
                ("disable", 24, 8),
                ("suspend", 32, 8),
                ("resume", 40, 8),
                ("getargdesc", 48, 8),
                ("getargval", 56, 8),
                ("usermode", 64, 8),
                ("destroy", 72, 8),
            ],
        );
        check_written(
            &rust.layouts,
            "dtrace_abi::stability::ProviderAttr",
            15,
            1,
            &[
                ("provider", 0, 3),
                ("module", 3, 3),
                ("function", 6, 3),
                ("name", 9, 3),
                ("args", 12, 3),
            ],
        );
        check_written(
            &rust.layouts,
            "dtrace_abi::ops::ArgDesc",
            268,
            4,
            &[
                ("id", 0, 4),
                ("ndx", 4, 4),
                ("mapping", 8, 4),
                ("native", 12, 128),
                ("xlate", 140, 128),
            ],
        );
    }
}
