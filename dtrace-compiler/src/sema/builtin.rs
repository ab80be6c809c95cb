//! The names that D brings with it (dt_open.c: `_dtrace_globals`, of FreeBSD).

use dtrace_abi::action::Action;
use dtrace_abi::dif::{Builtin, Subr};
use dtrace_abi::stability::{Attribute, Class, Stability};

use super::ident::{Cooking, Function, IdKind, Ident};
use crate::version::Version;

/// Actions as programs call them; some become several of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Breakpoint,
    Chill,
    Clear,
    Commit,
    Denormalize,
    Discard,
    Exit,
    Freopen,
    Ftruncate,
    Jstack,
    Mod,
    Normalize,
    Panic,
    Print,
    Printa,
    Printf,
    Printm,
    Raise,
    Return,
    Setopt,
    Speculate,
    Stack,
    Stop,
    Sym,
    System,
    Trace,
    Tracemem,
    Trunc,
    Uaddr,
    Umod,
    Ustack,
    Usym,
}

const STABLE: Attribute = Attribute::DEFAULT;
const EVOLVING: Attribute =
    Attribute { name: Stability::Evolving, data: Stability::Evolving, class: Class::Common };
const STABLE_PRIVATE: Attribute =
    Attribute { name: Stability::Stable, data: Stability::Private, class: Class::Common };

/// A name and what it stands for. Of a prototype `@` is any value, `...` any number of any values, and
/// what stands in brackets may be left out.
struct Entry {
    kind: IdKind,
    function: Option<Function>,
    id: u32,
    attr: Attribute,
    cooking: Cooking,
}

fn variable(builtin: Builtin, attr: Attribute, ty: &str) -> Entry {
    let cooking = Cooking::Named(ty.into());
    Entry { kind: IdKind::Scalar, function: None, id: builtin.number().into(), attr, cooking }
}

fn function(kind: IdKind, function: Function, attr: Attribute, prototype: &str) -> Entry {
    let cooking = Cooking::Prototype(prototype.into());
    Entry { kind, function: Some(function), id: 0, attr, cooking }
}

fn subr(subr: Subr, attr: Attribute, prototype: &str) -> Entry {
    function(IdKind::Func, Function::Subr(subr), attr, prototype)
}

fn aggregation(action: Action, prototype: &str) -> Entry {
    function(IdKind::AggFunc, Function::Agg(action), STABLE, prototype)
}

fn action(act: Act, prototype: &str) -> Entry {
    function(IdKind::ActFunc, Function::Act(act), STABLE, prototype)
}

fn array(builtin: Builtin, cooking: Cooking) -> Entry {
    Entry {
        kind: IdKind::Array,
        function: None,
        id: builtin.number().into(),
        attr: STABLE,
        cooking,
    }
}

fn scope() -> Entry {
    let cooking = Cooking::Named("void".into());
    Entry { kind: IdKind::Pointer, function: None, id: 0, attr: STABLE, cooking }
}

/// All of them, by name.
pub(super) fn idents() -> impl Iterator<Item = Ident> {
    let arrays = [
        ("args", array(Builtin::Args, Cooking::Args)),
        ("uregs", array(Builtin::Uregs, Cooking::Regs)),
        ("self", scope()),
        ("this", scope()),
    ];
    let all = arrays.into_iter().chain(variables()).chain(subroutines());
    all.chain(aggregations()).chain(actions()).map(|(name, entry)| {
        let mut ident = Ident::new(name, entry.kind, entry.cooking, 0);
        ident.function = entry.function;
        ident.id = entry.id;
        ident.attr = entry.attr;
        ident.since = since(name).and_then(Version::parse);
        ident
    })
}

/// Since which version of D a name is there, if not since 1.0.
fn since(name: &str) -> Option<&'static str> {
    Some(match name {
        "freopen" | "index" | "memref" | "rindex" | "strchr" | "strrchr" | "strstr" | "strtok"
        | "substr" => "1.1",
        "func" | "mod" | "setopt" | "sym" | "uaddr" | "ucaller" | "ufunc" | "umod"
        | "ustackdepth" | "usym" => "1.2",
        "htonl" | "htonll" | "htons" | "ntohl" | "ntohll" | "ntohs" => "1.3",
        "inet_ntoa" | "inet_ntoa6" | "inet_ntop" => "1.5",
        "stddev" => "1.6",
        "cpu" => "1.6.3",
        "llquantize" => "1.7",
        "tolower" | "toupper" => "1.8",
        "print" => "1.9",
        "getf" => "1.10",
        "json" | "strtoll" => "1.11",
        "jailname" | "jid" => "1.13",
        _ => return None,
    })
}

fn variables() -> Vec<(&'static str, Entry)> {
    vec![
        ("arg0", variable(Builtin::Arg0, STABLE, "int64_t")),
        ("arg1", variable(Builtin::Arg1, STABLE, "int64_t")),
        ("arg2", variable(Builtin::Arg2, STABLE, "int64_t")),
        ("arg3", variable(Builtin::Arg3, STABLE, "int64_t")),
        ("arg4", variable(Builtin::Arg4, STABLE, "int64_t")),
        ("arg5", variable(Builtin::Arg5, STABLE, "int64_t")),
        ("arg6", variable(Builtin::Arg6, STABLE, "int64_t")),
        ("arg7", variable(Builtin::Arg7, STABLE, "int64_t")),
        ("arg8", variable(Builtin::Arg8, STABLE, "int64_t")),
        ("arg9", variable(Builtin::Arg9, STABLE, "int64_t")),
        ("caller", variable(Builtin::Caller, STABLE, "uintptr_t")),
        ("curthread", variable(Builtin::Curthread, STABLE_PRIVATE, "kernel`struct thread *")),
        ("epid", variable(Builtin::Epid, STABLE, "uint_t")),
        ("errno", variable(Builtin::Errno, STABLE, "int")),
        ("execargs", variable(Builtin::Execargs, STABLE, "string")),
        ("execname", variable(Builtin::Execname, STABLE, "string")),
        ("gid", variable(Builtin::Gid, STABLE, "gid_t")),
        ("id", variable(Builtin::Id, STABLE, "uint_t")),
        ("ipl", variable(Builtin::Ipl, STABLE, "uint_t")),
        ("jailname", variable(Builtin::Jailname, STABLE, "string")),
        ("jid", variable(Builtin::Jid, STABLE, "int")),
        ("pid", variable(Builtin::Pid, STABLE, "pid_t")),
        ("ppid", variable(Builtin::Ppid, STABLE, "pid_t")),
        ("probefunc", variable(Builtin::Probefunc, STABLE, "string")),
        ("probemod", variable(Builtin::Probemod, STABLE, "string")),
        ("probename", variable(Builtin::Probename, STABLE, "string")),
        ("probeprov", variable(Builtin::Probeprov, STABLE, "string")),
        ("stackdepth", variable(Builtin::Stackdepth, STABLE, "uint32_t")),
        ("tid", variable(Builtin::Tid, STABLE, "id_t")),
        ("timestamp", variable(Builtin::Timestamp, STABLE, "uint64_t")),
        ("ucaller", variable(Builtin::Ucaller, STABLE, "uint64_t")),
        ("uid", variable(Builtin::Uid, STABLE, "uid_t")),
        ("ustackdepth", variable(Builtin::Ustackdepth, STABLE, "uint32_t")),
        ("vtimestamp", variable(Builtin::Vtimestamp, STABLE, "uint64_t")),
        ("walltimestamp", variable(Builtin::Walltimestamp, STABLE, "int64_t")),
        ("zonename", variable(Builtin::Zonename, STABLE, "string")),
        ("cpu", variable(Builtin::Cpu, STABLE, "int")),
    ]
}

fn subroutines() -> Vec<(&'static str, Entry)> {
    vec![
        ("alloca", subr(Subr::Alloca, STABLE, "void *(size_t)")),
        ("basename", subr(Subr::Basename, STABLE, "string(const char *)")),
        ("bcopy", subr(Subr::Bcopy, STABLE, "void(void *, void *, size_t)")),
        ("cleanpath", subr(Subr::Cleanpath, STABLE, "string(const char *)")),
        ("copyin", subr(Subr::Copyin, STABLE, "void *(uintptr_t, size_t)")),
        ("copyinstr", subr(Subr::Copyinstr, STABLE, "string(uintptr_t, [size_t])")),
        ("copyinto", subr(Subr::Copyinto, STABLE, "void(uintptr_t, size_t, void *)")),
        ("copyout", subr(Subr::Copyout, STABLE, "void(void *, uintptr_t, size_t)")),
        ("copyoutstr", subr(Subr::Copyoutstr, STABLE, "void(char *, uintptr_t, size_t)")),
        ("ddi_pathname", subr(Subr::DdiPathname, EVOLVING, "string(void *, int64_t)")),
        ("dirname", subr(Subr::Dirname, STABLE, "string(const char *)")),
        ("getmajor", subr(Subr::Getmajor, EVOLVING, "genunix`major_t(genunix`dev_t)")),
        ("getminor", subr(Subr::Getminor, EVOLVING, "genunix`minor_t(genunix`dev_t)")),
        ("htonl", subr(Subr::Htonl, EVOLVING, "uint32_t(uint32_t)")),
        ("htonll", subr(Subr::Htonll, EVOLVING, "uint64_t(uint64_t)")),
        ("htons", subr(Subr::Htons, EVOLVING, "uint16_t(uint16_t)")),
        ("getf", subr(Subr::Getf, STABLE, "file_t *(int)")),
        ("index", subr(Subr::Index, STABLE, "int(const char *, const char *, [int])")),
        ("inet_ntoa", subr(Subr::InetNtoa, STABLE, "string(in_addr_t *)")),
        ("inet_ntoa6", subr(Subr::InetNtoa6, STABLE, "string(struct in6_addr *, [int])")),
        ("inet_ntop", subr(Subr::InetNtop, STABLE, "string(int, void *)")),
        ("json", subr(Subr::Json, STABLE, "string(const char *, const char *)")),
        ("lltostr", subr(Subr::Lltostr, STABLE, "string(int64_t, [int])")),
        ("memref", subr(Subr::Memref, STABLE, "uintptr_t *(void *, size_t)")),
        ("memstr", subr(Subr::Memstr, STABLE, "string(void *, char, size_t)")),
        ("mutex_owned", subr(Subr::MutexOwned, EVOLVING, "int(kernel`struct mtx *)")),
        ("mutex_owner", subr(Subr::MutexOwner, EVOLVING, "struct thread *(kernel`struct mtx *)")),
        (
            "mutex_type_adaptive",
            subr(Subr::MutexTypeAdaptive, EVOLVING, "int(kernel`struct mtx *)"),
        ),
        ("mutex_type_spin", subr(Subr::MutexTypeSpin, EVOLVING, "int(kernel`struct mtx *)")),
        ("ntohl", subr(Subr::Ntohl, EVOLVING, "uint32_t(uint32_t)")),
        ("ntohll", subr(Subr::Ntohll, EVOLVING, "uint64_t(uint64_t)")),
        ("ntohs", subr(Subr::Ntohs, EVOLVING, "uint16_t(uint16_t)")),
        ("progenyof", subr(Subr::Progenyof, STABLE, "int(pid_t)")),
        ("rand", subr(Subr::Rand, STABLE, "int()")),
        ("rindex", subr(Subr::Rindex, STABLE, "int(const char *, const char *, [int])")),
        ("rw_iswriter", subr(Subr::RwIswriter, EVOLVING, "int(kernel`struct rwlock *)")),
        ("rw_read_held", subr(Subr::RwReadHeld, EVOLVING, "int(kernel`struct rwlock *)")),
        ("rw_write_held", subr(Subr::RwWriteHeld, EVOLVING, "int(kernel`struct rwlock *)")),
        ("speculation", subr(Subr::Speculation, STABLE, "int()")),
        ("strchr", subr(Subr::Strchr, STABLE, "string(const char *, char)")),
        ("strlen", subr(Subr::Strlen, STABLE, "size_t(const char *)")),
        ("strjoin", subr(Subr::Strjoin, STABLE, "string(const char *, const char *)")),
        ("strrchr", subr(Subr::Strrchr, STABLE, "string(const char *, char)")),
        ("strstr", subr(Subr::Strstr, STABLE, "string(const char *, const char *)")),
        ("strtok", subr(Subr::Strtok, STABLE, "string(const char *, const char *)")),
        ("strtoll", subr(Subr::Strtoll, STABLE, "int64_t(const char *, [int])")),
        ("substr", subr(Subr::Substr, STABLE, "string(const char *, int, [int])")),
        ("sx_isexclusive", subr(Subr::SxIsexclusive, EVOLVING, "int(kernel`struct sx *)")),
        ("sx_shared_held", subr(Subr::SxSharedHeld, EVOLVING, "int(kernel`struct sx *)")),
        ("sx_exclusive_held", subr(Subr::SxExclusiveHeld, EVOLVING, "int(kernel`struct sx *)")),
        ("tolower", subr(Subr::Tolower, STABLE, "string(const char *)")),
        ("toupper", subr(Subr::Toupper, STABLE, "string(const char *)")),
    ]
}

fn aggregations() -> Vec<(&'static str, Entry)> {
    vec![
        ("avg", aggregation(Action::Avg, "void(@)")),
        ("count", aggregation(Action::Count, "void()")),
        (
            "llquantize",
            aggregation(Action::Llquantize, "void(@, int32_t, int32_t, int32_t, int32_t, ...)"),
        ),
        ("lquantize", aggregation(Action::Lquantize, "void(@, int32_t, int32_t, ...)")),
        ("max", aggregation(Action::Max, "void(@)")),
        ("min", aggregation(Action::Min, "void(@)")),
        ("quantize", aggregation(Action::Quantize, "void(@, ...)")),
        ("stddev", aggregation(Action::Stddev, "void(@)")),
        ("sum", aggregation(Action::Sum, "void(@)")),
    ]
}

fn actions() -> Vec<(&'static str, Entry)> {
    vec![
        ("breakpoint", action(Act::Breakpoint, "void()")),
        ("chill", action(Act::Chill, "void(int)")),
        ("clear", action(Act::Clear, "void(...)")),
        ("commit", action(Act::Commit, "void(int)")),
        ("denormalize", action(Act::Denormalize, "void(...)")),
        ("discard", action(Act::Discard, "void(int)")),
        ("exit", action(Act::Exit, "void(int)")),
        ("freopen", action(Act::Freopen, "void(@, ...)")),
        ("ftruncate", action(Act::Ftruncate, "void()")),
        ("func", action(Act::Sym, "_symaddr(uintptr_t)")),
        ("jstack", action(Act::Jstack, "stack(...)")),
        ("mod", action(Act::Mod, "_symaddr(uintptr_t)")),
        ("normalize", action(Act::Normalize, "void(...)")),
        ("panic", action(Act::Panic, "void()")),
        ("print", action(Act::Print, "void(@)")),
        ("printa", action(Act::Printa, "void(@, ...)")),
        ("printf", action(Act::Printf, "void(@, ...)")),
        ("printm", action(Act::Printm, "void(size_t, uintptr_t *)")),
        ("raise", action(Act::Raise, "void(int)")),
        ("return", action(Act::Return, "void(int)")),
        ("setopt", action(Act::Setopt, "void(const char *, [const char *])")),
        ("speculate", action(Act::Speculate, "void(int)")),
        ("stack", action(Act::Stack, "stack(...)")),
        ("stop", action(Act::Stop, "void()")),
        ("sym", action(Act::Sym, "_symaddr(uintptr_t)")),
        ("system", action(Act::System, "void(@, ...)")),
        ("trace", action(Act::Trace, "void(@)")),
        ("tracemem", action(Act::Tracemem, "void(@, size_t, ...)")),
        ("trunc", action(Act::Trunc, "void(...)")),
        ("uaddr", action(Act::Uaddr, "_usymaddr(uintptr_t)")),
        ("ufunc", action(Act::Usym, "_usymaddr(uintptr_t)")),
        ("umod", action(Act::Umod, "_usymaddr(uintptr_t)")),
        ("ustack", action(Act::Ustack, "stack(...)")),
        ("usym", action(Act::Usym, "_usymaddr(uintptr_t)")),
    ]
}
