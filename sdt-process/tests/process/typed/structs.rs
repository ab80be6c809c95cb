//! Members of structs behind pointers.

use super::{LEVELS, Library, at_each_level};

#[test]
fn members_have_their_places_and_types() {
    at_each_level(|library, level| {
        let shown = library.run(
            r#"*submit@:entry { printf("%d %d %d %d %d %d %d %d %d", args.self->small, args.self->price.cents,
                args.self->codes[2], args.self->type, args.self->tries, args.self->colour, args.self->wide.low,
                args.self->wide.high, sizeof(args.self->codes)); }"#,
        );
        assert_eq!(shown, "7 1250 30 9 -2 1 2 3 6", "{level}");
        // The types of pointers carry over into variables.
        let shown = library.run(
            r#"*submit@:entry { this->o = args.self; self->c = this->o->customer; }
               *submit@:return /self->c/ { printf("%d %d %d", self->c->id, self->c->home.__0, self->c->home.__1); }"#,
        );
        assert_eq!(shown, "77 -3 4", "{level}");
        let types = library.arguments("*submit@:entry");
        let types: Vec<_> = types.iter().map(String::as_str).collect();
        let pointer = "struct typed::Order *";
        let [order, other, all, len] = &types[..] else { panic!("{types:?}") };
        assert_eq!([*order, *other], [format!("self: {pointer}"), format!("other: {pointer}")]);
        assert_eq!([*all, *len], ["all: struct typed::Price *", "all.len: size_t"]);
    });
}

#[test]
fn pointers_options_slices_and_texts_in_structs() {
    at_each_level(|library, level| {
        let shown = library.run(
            r#"*submit@:entry { printf("%s %s %s %d;", args.self->label, args.self->customer->name, args.self->bytes,
                args.self->label.length); }"#,
        );
        assert_eq!(shown, "first? order Ada bytes 12;", "{level}");
        let shown = library.run(
            r#"*submit@:entry { printf("%d %d %d %d", args.self->next->price.cents, args.self->next->next == NULL,
                args.other.is_some, args.self->items.len); }"#,
        );
        assert_eq!(shown, "80 1 0 2", "{level}");
        let shown = library.run(
            r#"*submit@:entry { printf("%d %d", args.all[1].cents, args.all.len);
                this->items = (uint32_t *)args.self->items.buf.inner.ptr; printf(" %d", this->items[1]); }
               *wild@:entry { printf("%s %d;", *args.text, sizeof(*args.text)); }"#,
        );
        assert_eq!(shown, "text 24;2 2 6", "{level}");
    });
}

#[test]
fn enums_with_data_have_their_variants() {
    at_each_level(|library, level| {
        let shown = library.run(
            r#"*submit@:entry { printf("%d %d;", args.self->state.discriminant, args.self->state.Closed.__0); }
               *state@:entry { printf("%d %d;", args.one->discriminant, args.one->Both.count); }"#,
        );
        assert_eq!(shown, "2 -4;1 9;", "{level}");
        let shown = library.run("*state@:entry { print(*args.one); }");
        assert!(shown.contains("int count = 0xfffffffc"), "{shown}");
    });
}

/// A pointer to memory that is not mapped is a fault, as in all programs.
#[test]
fn wild_pointers_are_faults() {
    for level in LEVELS {
        let mut library = Library::rust(&["-g", &format!("-Copt-level={level}")]);
        let said = library.said("*wild@:entry { trace(args.order->price.cents); }");
        assert!(said.contains("invalid address (0x123456789abc"), "{said}");
        library.subject.end();
    }
}

#[test]
fn other_members_are_refused() {
    at_each_level(|library, level| {
        for (member, expected) in [
            ("smal", "struct typed::Order has no member smal, only "),
            ("mark", "mark of struct typed::Order has no value: it has no data"),
            ("state.x", "struct typed::State has no member x, only discriminant, Closed"),
            ("price->cents", "operator -> must be applied to a pointer"),
        ] {
            let why = library.refused(&format!("*submit@:entry {{ trace(args.self->{member}); }}"));
            assert!(why.contains(expected), "{level}: {why}");
        }
        let why = library.refused("*customer@:entry { trace(args.one->nme); }");
        assert!(why.contains("struct typed::people::Customer has no member nme, only "), "{why}");
    });
}

#[test]
fn whole_structs_are_printed() {
    at_each_level(|library, level| {
        let shown = library.run("*submit@:entry { print(args.self->price); }");
        assert_eq!(shown, "struct typed::Price {\n    uint32_t cents = 0x4e2\n}", "{level}");
        let shown = library.run("*submit@:entry { print(*args.self); }");
        assert!(shown.contains("double ratio = +5.0000000e-01"), "{shown}");
    });
}

#[test]
fn structs_in_c() {
    for level in ["-O0", "-O2"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let Some(mut library) = Library::c(&[level, version]) else { return };
            let shown = library.run(
                r#"shown@:entry { printf("%c %d %d %d %d %d %d %s %d %d %d %d", args.item->kind, args.item->corners[1][2],
                    args.item->at.x, args.item->next->at.y, args.item->label->serial, args.item->whole, args.item->high,
                    stringof(args.item->name.letters), args.item->colour, args.item->hidden == NULL,
                    (*args.points)->y, sizeof(*args[0])); }"#,
            );
            let what = format!("{level} {version}");
            assert_eq!(shown, "a -6 -1 6 4711 131073 2 letters 1 1 2 72", "{what}");
            let types = ["item: struct item *", "points: struct point **"];
            assert_eq!(library.arguments("shown@:entry"), types, "{what}");
            let why = library.refused("shown@:entry { trace(args.item->urgent); }");
            assert!(why.contains("urgent of struct item has no value: it is a bit-field"), "{why}");
            library.subject.end();
        }
    }
}
