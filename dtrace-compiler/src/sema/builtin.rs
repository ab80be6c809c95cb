//! The built-in names of D (dt_open.c: `_dtrace_globals`, of FreeBSD).

use dtrace_abi::action::Action;
use dtrace_abi::dif::{Builtin, Subr};
use dtrace_abi::stability::{Attribute, Class, Stability};

use super::action::TracingFunction;
use super::ident::{Cooking, Function, IdKind, Ident};
use crate::version::Version;

const STABLE: Attribute = Attribute::DEFAULT;
const EVOLVING: Attribute =
    Attribute { name: Stability::Evolving, data: Stability::Evolving, class: Class::Common };
const STABLE_PRIVATE: Attribute =
    Attribute { name: Stability::Stable, data: Stability::Private, class: Class::Common };

/// The meaning of a name. In a prototype, `@` is any value, `...` any number of any values, and parameters in brackets are optional.
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

fn action(act: TracingFunction, prototype: &str) -> Entry {
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

/// A name of D, the version of D that introduced it, and its meaning.
type Row = (&'static str, &'static str, Entry);

/// Returns all names of D.
pub(super) fn idents() -> impl Iterator<Item = Ident> {
    let arrays = [
        ("args", "1.0", array(Builtin::Args, Cooking::Args)),
        ("uregs", "1.0", array(Builtin::Uregs, Cooking::Regs)),
        ("self", "1.0", scope()),
        ("this", "1.0", scope()),
    ];
    let all = arrays.into_iter().chain(variables()).chain(subroutines());
    all.chain(aggregations()).chain(actions()).map(|(name, since, entry)| {
        let mut ident = Ident::new(name, entry.kind, entry.cooking, 0);
        ident.function = entry.function;
        ident.id = entry.id;
        ident.attr = entry.attr;
        // All versions have the names of 1.0.
        ident.since = Version::parse(since).filter(|_| since != "1.0");
        ident
    })
}

fn variables() -> Vec<Row> {
    vec![
        ("arg0", "1.0", variable(Builtin::Arg0, STABLE, "int64_t")),
        ("arg1", "1.0", variable(Builtin::Arg1, STABLE, "int64_t")),
        ("arg2", "1.0", variable(Builtin::Arg2, STABLE, "int64_t")),
        ("arg3", "1.0", variable(Builtin::Arg3, STABLE, "int64_t")),
        ("arg4", "1.0", variable(Builtin::Arg4, STABLE, "int64_t")),
        ("arg5", "1.0", variable(Builtin::Arg5, STABLE, "int64_t")),
        ("arg6", "1.0", variable(Builtin::Arg6, STABLE, "int64_t")),
        ("arg7", "1.0", variable(Builtin::Arg7, STABLE, "int64_t")),
        ("arg8", "1.0", variable(Builtin::Arg8, STABLE, "int64_t")),
        ("arg9", "1.0", variable(Builtin::Arg9, STABLE, "int64_t")),
        ("caller", "1.0", variable(Builtin::Caller, STABLE, "uintptr_t")),
        (
            "curthread",
            "1.0",
            variable(Builtin::Curthread, STABLE_PRIVATE, "kernel`struct thread *"),
        ),
        ("epid", "1.0", variable(Builtin::Epid, STABLE, "uint_t")),
        ("errno", "1.0", variable(Builtin::Errno, STABLE, "int")),
        ("execargs", "1.0", variable(Builtin::Execargs, STABLE, "string")),
        ("execname", "1.0", variable(Builtin::Execname, STABLE, "string")),
        ("gid", "1.0", variable(Builtin::Gid, STABLE, "gid_t")),
        ("id", "1.0", variable(Builtin::Id, STABLE, "uint_t")),
        ("ipl", "1.0", variable(Builtin::Ipl, STABLE, "uint_t")),
        ("jailname", "1.13", variable(Builtin::Jailname, STABLE, "string")),
        ("jid", "1.13", variable(Builtin::Jid, STABLE, "int")),
        ("pid", "1.0", variable(Builtin::Pid, STABLE, "pid_t")),
        ("ppid", "1.0", variable(Builtin::Ppid, STABLE, "pid_t")),
        ("probefunc", "1.0", variable(Builtin::Probefunc, STABLE, "string")),
        ("probemod", "1.0", variable(Builtin::Probemod, STABLE, "string")),
        ("probename", "1.0", variable(Builtin::Probename, STABLE, "string")),
        ("probeprov", "1.0", variable(Builtin::Probeprov, STABLE, "string")),
        ("stackdepth", "1.0", variable(Builtin::Stackdepth, STABLE, "uint32_t")),
        ("threadname", "1.13", variable(Builtin::Threadname, STABLE, "string")),
        ("tid", "1.0", variable(Builtin::Tid, STABLE, "id_t")),
        ("timestamp", "1.0", variable(Builtin::Timestamp, STABLE, "uint64_t")),
        ("ucaller", "1.2", variable(Builtin::Ucaller, STABLE, "uint64_t")),
        ("uid", "1.0", variable(Builtin::Uid, STABLE, "uid_t")),
        ("ustackdepth", "1.2", variable(Builtin::Ustackdepth, STABLE, "uint32_t")),
        ("vtimestamp", "1.0", variable(Builtin::Vtimestamp, STABLE, "uint64_t")),
        ("walltimestamp", "1.0", variable(Builtin::Walltimestamp, STABLE, "int64_t")),
        ("zonename", "1.0", variable(Builtin::Zonename, STABLE, "string")),
        ("cpu", "1.6.3", variable(Builtin::Cpu, STABLE, "int")),
    ]
}

fn subroutines() -> Vec<Row> {
    vec![
        ("alloca", "1.0", subr(Subr::Alloca, STABLE, "void *(size_t)")),
        ("basename", "1.0", subr(Subr::Basename, STABLE, "string(const char *)")),
        ("bcopy", "1.0", subr(Subr::Bcopy, STABLE, "void(void *, void *, size_t)")),
        ("cleanpath", "1.0", subr(Subr::Cleanpath, STABLE, "string(const char *)")),
        ("copyin", "1.0", subr(Subr::Copyin, STABLE, "void *(uintptr_t, size_t)")),
        ("copyinstr", "1.0", subr(Subr::Copyinstr, STABLE, "string(uintptr_t, [size_t])")),
        ("copyinto", "1.0", subr(Subr::Copyinto, STABLE, "void(uintptr_t, size_t, void *)")),
        ("copyout", "1.0", subr(Subr::Copyout, STABLE, "void(void *, uintptr_t, size_t)")),
        ("copyoutstr", "1.0", subr(Subr::Copyoutstr, STABLE, "void(char *, uintptr_t, size_t)")),
        ("ddi_pathname", "1.0", subr(Subr::DdiPathname, EVOLVING, "string(void *, int64_t)")),
        ("dirname", "1.0", subr(Subr::Dirname, STABLE, "string(const char *)")),
        ("getmajor", "1.0", subr(Subr::Getmajor, EVOLVING, "genunix`major_t(genunix`dev_t)")),
        ("getminor", "1.0", subr(Subr::Getminor, EVOLVING, "genunix`minor_t(genunix`dev_t)")),
        ("htonl", "1.3", subr(Subr::Htonl, EVOLVING, "uint32_t(uint32_t)")),
        ("htonll", "1.3", subr(Subr::Htonll, EVOLVING, "uint64_t(uint64_t)")),
        ("htons", "1.3", subr(Subr::Htons, EVOLVING, "uint16_t(uint16_t)")),
        ("getf", "1.10", subr(Subr::Getf, STABLE, "file_t *(int)")),
        ("index", "1.1", subr(Subr::Index, STABLE, "int(const char *, const char *, [int])")),
        ("inet_ntoa", "1.5", subr(Subr::InetNtoa, STABLE, "string(in_addr_t *)")),
        ("inet_ntoa6", "1.5", subr(Subr::InetNtoa6, STABLE, "string(struct in6_addr *, [int])")),
        ("inet_ntop", "1.5", subr(Subr::InetNtop, STABLE, "string(int, void *)")),
        ("json", "1.11", subr(Subr::Json, STABLE, "string(const char *, const char *)")),
        ("lltostr", "1.0", subr(Subr::Lltostr, STABLE, "string(int64_t, [int])")),
        ("memref", "1.1", subr(Subr::Memref, STABLE, "uintptr_t *(void *, size_t)")),
        ("memstr", "1.0", subr(Subr::Memstr, STABLE, "string(void *, char, size_t)")),
        ("mutex_owned", "1.0", subr(Subr::MutexOwned, EVOLVING, "int(kernel`struct mtx *)")),
        (
            "mutex_owner",
            "1.0",
            subr(Subr::MutexOwner, EVOLVING, "struct thread *(kernel`struct mtx *)"),
        ),
        (
            "mutex_type_adaptive",
            "1.0",
            subr(Subr::MutexTypeAdaptive, EVOLVING, "int(kernel`struct mtx *)"),
        ),
        ("mutex_type_spin", "1.0", subr(Subr::MutexTypeSpin, EVOLVING, "int(kernel`struct mtx *)")),
        ("ntohl", "1.3", subr(Subr::Ntohl, EVOLVING, "uint32_t(uint32_t)")),
        ("ntohll", "1.3", subr(Subr::Ntohll, EVOLVING, "uint64_t(uint64_t)")),
        ("ntohs", "1.3", subr(Subr::Ntohs, EVOLVING, "uint16_t(uint16_t)")),
        ("progenyof", "1.0", subr(Subr::Progenyof, STABLE, "int(pid_t)")),
        ("rand", "1.0", subr(Subr::Rand, STABLE, "int()")),
        ("rindex", "1.1", subr(Subr::Rindex, STABLE, "int(const char *, const char *, [int])")),
        ("rw_iswriter", "1.0", subr(Subr::RwIswriter, EVOLVING, "int(kernel`struct rwlock *)")),
        ("rw_read_held", "1.0", subr(Subr::RwReadHeld, EVOLVING, "int(kernel`struct rwlock *)")),
        ("rw_write_held", "1.0", subr(Subr::RwWriteHeld, EVOLVING, "int(kernel`struct rwlock *)")),
        ("speculation", "1.0", subr(Subr::Speculation, STABLE, "int()")),
        ("strchr", "1.1", subr(Subr::Strchr, STABLE, "string(const char *, char)")),
        ("strlen", "1.0", subr(Subr::Strlen, STABLE, "size_t(const char *)")),
        ("strjoin", "1.0", subr(Subr::Strjoin, STABLE, "string(const char *, const char *)")),
        ("strrchr", "1.1", subr(Subr::Strrchr, STABLE, "string(const char *, char)")),
        ("strstr", "1.1", subr(Subr::Strstr, STABLE, "string(const char *, const char *)")),
        ("strtok", "1.1", subr(Subr::Strtok, STABLE, "string(const char *, const char *)")),
        ("strtoll", "1.11", subr(Subr::Strtoll, STABLE, "int64_t(const char *, [int])")),
        ("substr", "1.1", subr(Subr::Substr, STABLE, "string(const char *, int, [int])")),
        ("sx_isexclusive", "1.0", subr(Subr::SxIsexclusive, EVOLVING, "int(kernel`struct sx *)")),
        ("sx_shared_held", "1.0", subr(Subr::SxSharedHeld, EVOLVING, "int(kernel`struct sx *)")),
        (
            "sx_exclusive_held",
            "1.0",
            subr(Subr::SxExclusiveHeld, EVOLVING, "int(kernel`struct sx *)"),
        ),
        ("tolower", "1.8", subr(Subr::Tolower, STABLE, "string(const char *)")),
        ("toupper", "1.8", subr(Subr::Toupper, STABLE, "string(const char *)")),
    ]
}

fn aggregations() -> Vec<Row> {
    vec![
        ("avg", "1.0", aggregation(Action::Avg, "void(@)")),
        ("count", "1.0", aggregation(Action::Count, "void()")),
        (
            "llquantize",
            "1.7",
            aggregation(Action::Llquantize, "void(@, int32_t, int32_t, int32_t, int32_t, ...)"),
        ),
        ("lquantize", "1.0", aggregation(Action::Lquantize, "void(@, int32_t, int32_t, ...)")),
        ("max", "1.0", aggregation(Action::Max, "void(@)")),
        ("min", "1.0", aggregation(Action::Min, "void(@)")),
        ("quantize", "1.0", aggregation(Action::Quantize, "void(@, ...)")),
        ("stddev", "1.6", aggregation(Action::Stddev, "void(@)")),
        ("sum", "1.0", aggregation(Action::Sum, "void(@)")),
    ]
}

fn actions() -> Vec<Row> {
    vec![
        ("breakpoint", "1.0", action(TracingFunction::Breakpoint, "void()")),
        ("chill", "1.0", action(TracingFunction::Chill, "void(int)")),
        ("clear", "1.0", action(TracingFunction::Clear, "void(...)")),
        ("commit", "1.0", action(TracingFunction::Commit, "void(int)")),
        ("denormalize", "1.0", action(TracingFunction::Denormalize, "void(...)")),
        ("discard", "1.0", action(TracingFunction::Discard, "void(int)")),
        ("exit", "1.0", action(TracingFunction::Exit, "void(int)")),
        ("freopen", "1.1", action(TracingFunction::Freopen, "void(@, ...)")),
        ("ftruncate", "1.0", action(TracingFunction::Ftruncate, "void()")),
        ("func", "1.2", action(TracingFunction::Sym, "_symaddr(uintptr_t)")),
        ("jstack", "1.0", action(TracingFunction::Jstack, "stack(...)")),
        ("mod", "1.2", action(TracingFunction::Mod, "_symaddr(uintptr_t)")),
        ("normalize", "1.0", action(TracingFunction::Normalize, "void(...)")),
        ("panic", "1.0", action(TracingFunction::Panic, "void()")),
        ("print", "1.9", action(TracingFunction::Print, "void(@)")),
        ("printa", "1.0", action(TracingFunction::Printa, "void(@, ...)")),
        ("printf", "1.0", action(TracingFunction::Printf, "void(@, ...)")),
        ("printm", "1.0", action(TracingFunction::Printm, "void(size_t, uintptr_t *)")),
        ("raise", "1.0", action(TracingFunction::Raise, "void(int)")),
        ("return", "1.0", action(TracingFunction::Return, "void(int)")),
        ("setopt", "1.2", action(TracingFunction::Setopt, "void(const char *, [const char *])")),
        ("speculate", "1.0", action(TracingFunction::Speculate, "void(int)")),
        ("stack", "1.0", action(TracingFunction::Stack, "stack(...)")),
        ("stop", "1.0", action(TracingFunction::Stop, "void()")),
        ("sym", "1.2", action(TracingFunction::Sym, "_symaddr(uintptr_t)")),
        ("system", "1.0", action(TracingFunction::System, "void(@, ...)")),
        ("trace", "1.0", action(TracingFunction::Trace, "void(@)")),
        ("tracemem", "1.0", action(TracingFunction::Tracemem, "void(@, size_t, ...)")),
        ("trunc", "1.0", action(TracingFunction::Trunc, "void(...)")),
        ("uaddr", "1.2", action(TracingFunction::Uaddr, "_usymaddr(uintptr_t)")),
        ("ufunc", "1.2", action(TracingFunction::Usym, "_usymaddr(uintptr_t)")),
        ("umod", "1.2", action(TracingFunction::Umod, "_usymaddr(uintptr_t)")),
        ("ustack", "1.0", action(TracingFunction::Ustack, "stack(...)")),
        ("usym", "1.2", action(TracingFunction::Usym, "_usymaddr(uintptr_t)")),
    ]
}
