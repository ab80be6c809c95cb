//! The instructions.

numbered! {
    /// The operation of an instruction (`DIF_OP_*`). The names are those of the disassembler.
    ///
    /// The kernel replaces `Ld*` by `Rld*` for a consumer that may not read all of its memory; a DIFO from a consumer
    /// must not contain them. Only libdtrace uses `Xlate` and `Xlarg`, and never sends them to a kernel. `stga` (80),
    /// which only illumos's `vmregs` needs, is missing.
    pub enum Opcode: u8 {
        Or = 1, "or";
        Xor = 2, "xor";
        And = 3, "and";
        Sll = 4, "sll";
        Srl = 5, "srl";
        Sub = 6, "sub";
        Add = 7, "add";
        Mul = 8, "mul";
        Sdiv = 9, "sdiv";
        Udiv = 10, "udiv";
        Srem = 11, "srem";
        Urem = 12, "urem";
        Not = 13, "not";
        Mov = 14, "mov";
        Cmp = 15, "cmp";
        Tst = 16, "tst";
        Ba = 17, "ba";
        Be = 18, "be";
        Bne = 19, "bne";
        Bg = 20, "bg";
        Bgu = 21, "bgu";
        Bge = 22, "bge";
        Bgeu = 23, "bgeu";
        Bl = 24, "bl";
        Blu = 25, "blu";
        Ble = 26, "ble";
        Bleu = 27, "bleu";
        Ldsb = 28, "ldsb";
        Ldsh = 29, "ldsh";
        Ldsw = 30, "ldsw";
        Ldub = 31, "ldub";
        Lduh = 32, "lduh";
        Lduw = 33, "lduw";
        Ldx = 34, "ldx";
        Ret = 35, "ret";
        Nop = 36, "nop";
        Setx = 37, "setx";
        Sets = 38, "sets";
        Scmp = 39, "scmp";
        Ldga = 40, "ldga";
        Ldgs = 41, "ldgs";
        Stgs = 42, "stgs";
        Ldta = 43, "ldta";
        Ldts = 44, "ldts";
        Stts = 45, "stts";
        Sra = 46, "sra";
        Call = 47, "call";
        Pushtr = 48, "pushtr";
        Pushtv = 49, "pushtv";
        Popts = 50, "popts";
        Flushts = 51, "flushts";
        Ldgaa = 52, "ldgaa";
        Ldtaa = 53, "ldtaa";
        Stgaa = 54, "stgaa";
        Sttaa = 55, "sttaa";
        Ldls = 56, "ldls";
        Stls = 57, "stls";
        Allocs = 58, "allocs";
        Copys = 59, "copys";
        Stb = 60, "stb";
        Sth = 61, "sth";
        Stw = 62, "stw";
        Stx = 63, "stx";
        Uldsb = 64, "uldsb";
        Uldsh = 65, "uldsh";
        Uldsw = 66, "uldsw";
        Uldub = 67, "uldub";
        Ulduh = 68, "ulduh";
        Ulduw = 69, "ulduw";
        Uldx = 70, "uldx";
        Rldsb = 71, "rldsb";
        Rldsh = 72, "rldsh";
        Rldsw = 73, "rldsw";
        Rldub = 74, "rldub";
        Rlduh = 75, "rlduh";
        Rlduw = 76, "rlduw";
        Rldx = 77, "rldx";
        Xlate = 78, "xlate";
        Xlarg = 79, "xlarg";
    }
}

/// The fields of an instruction that an opcode uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `op %r1, %r2, %rd`.
    Three,
    /// `op %r1, %rd`.
    Two,
    /// `op %r1, %r2`: the condition codes are the result.
    Compare,
    /// `op %r1`: the condition codes are the result.
    Test,
    /// `op label`.
    Branch,
    /// `op [%r1], %rd`.
    Load,
    /// `op %r1, [%rd]`.
    Store,
    /// `op %rd`.
    Return,
    /// No fields.
    Plain,
    /// `setx DT_INTEGER[index], %rd`.
    Integer,
    /// `sets DT_STRING[offset], %rd`.
    String,
    /// `op DT_VAR(r1), %r2, %rd`: an element of one of the kernel's arrays.
    LoadArray,
    /// `op DT_VAR(var), %rd`.
    LoadVar,
    /// `op %rs, DT_VAR(var)`.
    StoreVar,
    /// `call DIF_SUBR(subr), %rd`.
    Call,
    /// `op DT_TYPE(type), [%r2,] %rs`.
    Push,
    /// `op DT_XLREF[index], %rd`.
    Translate,
}

impl Opcode {
    /// Returns the form of the instruction: the fields that the opcode uses.
    pub const fn form(self) -> Form {
        use Opcode::*;
        match self {
            Or | Xor | And | Sll | Srl | Sub | Add | Mul | Sdiv | Udiv | Srem | Urem | Sra
            | Copys => Form::Three,
            Not | Mov | Allocs => Form::Two,
            Cmp | Scmp => Form::Compare,
            Tst => Form::Test,
            Ba | Be | Bne | Bg | Bgu | Bge | Bgeu | Bl | Blu | Ble | Bleu => Form::Branch,
            Ldsb | Ldsh | Ldsw | Ldub | Lduh | Lduw | Ldx | Uldsb | Uldsh | Uldsw | Uldub
            | Ulduh | Ulduw | Uldx | Rldsb | Rldsh | Rldsw | Rldub | Rlduh | Rlduw | Rldx => {
                Form::Load
            }
            Stb | Sth | Stw | Stx => Form::Store,
            Ret => Form::Return,
            Nop | Popts | Flushts => Form::Plain,
            Setx => Form::Integer,
            Sets => Form::String,
            Ldga | Ldta => Form::LoadArray,
            Ldgs | Ldts | Ldls | Ldgaa | Ldtaa => Form::LoadVar,
            Stgs | Stts | Stls | Stgaa | Sttaa => Form::StoreVar,
            Call => Form::Call,
            Pushtr | Pushtv => Form::Push,
            Xlate | Xlarg => Form::Translate,
        }
    }
}
