#!/bin/sh
# The checklist of docs/freebsd.md and docs/illumos.md, on a machine that runs one of them: loads the example module,
# lists its probe, traces with it, unloads it, and prints PASS or FAIL for each step. Ends with status 0 if nothing failed.
# It needs no other file but the modules.
#
#     checklist.sh [-r ROUNDS] [-n NATIVE] [-p PROVIDER]
#
# -n  the example module for the kernel's own sdt   (cargo xtask kmod, for illumos with --os illumos)
# -p  the one with a provider of its own            (cargo xtask kmod --route provider; on FreeBSD only)
# -r  how often it is loaded and unloaded in the last step (100)
#
# For root, on a machine on which nothing depends. On FreeBSD, DTrace's kernel modules are loaded if they are not; on
# illumos, the module is copied to /kernel/misc/amd64 and removed from there.

set -u

rounds=100
native=
provider=
while getopts n:p:r: option; do
	case $option in
	n) native=$OPTARG ;;
	p) provider=$OPTARG ;;
	r) rounds=$OPTARG ;;
	*) exit 2 ;;
	esac
done
if [ -z "$native$provider" ]; then
	echo "usage: $0 [-r rounds] [-n native] [-p provider]" >&2
	exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/sdt-checklist.XXXXXX") || exit 2
consumer=
installed=
passed=0
failed=0

clean_up() {
	[ -n "$consumer" ] && kill "$consumer" 2>/dev/null && wait "$consumer" 2>/dev/null
	[ -n "$installed" ] && rm -f "$installed"
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 2' INT TERM HUP

# pass WHAT; fail WHAT, with what was seen in $work/seen.
pass() {
	passed=$((passed + 1))
	echo "PASS $route: $1"
}

fail() {
	failed=$((failed + 1))
	echo "FAIL $route: $1"
	[ -s "$work/seen" ] && sed 's/^/     | /' "$work/seen"
	return 1
}

# check WHAT COMMAND...: passes if the command succeeds.
check() {
	what=$1
	shift
	if "$@" >"$work/seen" 2>&1; then pass "$what"; else fail "$what"; fi
}

# What differs between the systems: is_ours, name_of FILE, is_ready, install_module, load, unload, is_loaded, and
# below the words for it.
freebsd() {
	is_ours() {
		uname -srm && [ "$(id -u)" = 0 ]
	}
	name_of() {
		basename "$1" .ko
	}
	is_ready() {
		kldload -n dtraceall 2>/dev/null || kldload -n sdt 2>/dev/null
		dtrace -l -n 'dtrace:::BEGIN'
	}
	# A name without a folder is looked for in the kernel's own.
	load() {
		case $file in
		*/*) kldload "$file" ;;
		*) kldload "./$file" ;;
		esac
	}
	unload() {
		kldunload "$module"
	}
	is_loaded() {
		kldstat -n "$module.ko"
	}
	is_described() {
		dtrace -l -v -n "$probe" | tee "$work/out"
		grep -q 'args\[0\]: char \*' "$work/out" && grep -q 'Dependency Class: ISA' "$work/out"
	}
	# The first frame is the function that fired, and so is the caller's module; below are the kernel's.
	has_stack() {
		show_stack
		awk 'NF' "$work/out" | head -1 | grep -q "$module.ko\`" &&
		    awk 'NF' "$work/out" | sed 1d | grep -q 'kernel`'
	}
	has_typed_argument() {
		shows_paths 'stringof(args[0])'
	}
	fires_by_hand() {
		dtrace -q -n "$probe"'{ printf("%s\n", stringof(arg0)); }' -c "/sbin/sysctl $module.fire=/by/hand" |
		    tee "$work/out"
		grep -qx /by/hand "$work/out"
	}
	loader=kldload unloader=kldunload lister=kldstat by_hand=sysctl
	program=/usr/bin/true argument=
}

illumos() {
	is_ours() {
		uname -sprv
		id
		[ "$(isainfo -k)" = amd64 ] && id | grep '^uid=0('
	}
	name_of() {
		basename "$1"
	}
	is_ready() {
		dtrace -l -n 'dtrace:::BEGIN'
	}
	install_module() {
		target=/kernel/misc/amd64/$module
		[ ! -e "$target" ] || { echo "$target exists already"; return 1; }
		cp "$file" "$target" && installed=$target
	}
	load() {
		modload -p "misc/$module"
	}
	unload() {
		modunload -i "$(modinfo | awk -v name="$module" '$6 == name { print $1 }')"
	}
	is_loaded() {
		modinfo | grep " $module "
	}
	# Evolving arguments of the instruction set: what illumos says of all probes of proc.
	is_described() {
		dtrace -l -v -n "$probe" | tee "$work/out"
		grep -q 'Identifier Names: Evolving' "$work/out" && grep -q 'Dependency Class: ISA' "$work/out"
	}
	has_stack() {
		show_stack
		grep -q "$module\`" "$work/out" && grep -q 'unix`' "$work/out"
	}
	# fbt has the module's functions, for it does not depend on dtrace, by names that can be typed.
	has_functions() {
		dtrace -l -n "fbt:$module:$module.on_exec:entry" | grep " $module "
	}
	fires_by_hand() {
		dtrace -q -n "$probe"'{ printf("%s\n", stringof(arg0)); }' -c "/usr/bin/kstat -p $module:0:by_hand" |
		    tee "$work/out"
		grep -qx 'by hand' "$work/out"
	}
	loader=modload unloader=modunload lister=modinfo by_hand=kstat
	program=/usr/bin/sleep argument=' 0'
}

is_not_loaded() {
	! is_loaded
}

# Creates a program that no other process runs, so that its execs can be counted, and a script that runs it three times.
prepare() {
	cp "$program" "$work/traced" || exit 2
	run=$work/traced$argument
	printf '%s\n%s\n%s\n' "$run" "$run" "$run" >"$work/thrice"
}

# One row, and the module's.
is_listed() {
	dtrace -l -n "$probe" | tee "$work/out"
	[ "$(awk '$2 == "proc" && $NF == "exec-success"' "$work/out" | grep -c " $module ")" -eq 1 ]
}

is_not_listed() {
	! dtrace -l -n "$probe" 2>&1 | grep " $module "
}

# shows_paths EXPRESSION: each exec once, with its path.
shows_paths() {
	dtrace -q -n "$probe"'{ printf("%s\n", '"$1"'); }' -c "/bin/sh $work/thrice" | tee "$work/out"
	[ "$(grep -cx "$work/traced" "$work/out")" -eq 3 ]
}

fires() {
	shows_paths 'stringof(arg0)'
}

aggregates() {
	dtrace -q -n "$probe"'{ @[stringof(arg0)] = count(); }' -c "/bin/sh $work/thrice" |
	    tee "$work/out"
	[ "$(awk -v path="$work/traced" '$1 == path { print $2 }' "$work/out")" = 3 ]
}

show_stack() {
	dtrace -q -n "$probe"'{ stack(); exit(0); }' -c "/bin/sh $work/thrice" | tee "$work/out"
}

# Starts a consumer that counts, and waits until the probe is enabled.
start_consumer() {
	# What the one before it said must be gone before the shell gets round to starting this one.
	: >"$work/started"
	dtrace -n "$probe"'/stringof(arg0) == "'"$work/traced"'"/{ @ = count(); }' \
	    >"$work/counted" 2>"$work/started" &
	consumer=$!
	tries=0
	while [ "$tries" -lt 60 ]; do
		tries=$((tries + 1))
		grep 'matched 1 probe' "$work/started" && return 0
		kill -0 "$consumer" 2>/dev/null || break
		sleep 1
	done
	cat "$work/started"
	return 1
}

# Ends it, which prints the count. (Shells have their background jobs ignore SIGINT.)
stop_consumer() {
	kill -TERM "$consumer" && wait "$consumer"
	consumer=
	cat "$work/counted"
	[ "$(awk 'NF == 1 && $1 ~ /^[0-9]+$/ { print $1 }' "$work/counted")" = "$1" ]
}

is_refused() {
	if unload; then
		echo "the module was unloaded while a consumer has its probe enabled"
		return 1
	fi
	is_loaded
}

run_thrice() {
	/bin/sh "$work/thrice"
}

# Loads and unloads the module repeatedly, and traces in every tenth round.
lasts() {
	round=0
	while [ "$round" -lt "$rounds" ]; do
		round=$((round + 1))
		if ! load || ! is_listed; then
			echo "round $round: not loaded or not listed"
			return 1
		fi
		if [ $((round % 10)) -eq 0 ] && ! fires; then
			echo "round $round: not fired"
			return 1
		fi
		if ! unload; then
			echo "round $round: not unloaded"
			return 1
		fi
	done
}

# check_if_there WHAT FUNCTION: a step that only one of the systems has.
check_if_there() {
	command -v "$2" >/dev/null || return 0
	check "$@"
}

# All steps for one module.
check_module() {
	route=$1
	file=$2
	module=$(name_of "$file")
	# The kernel may have a probe of this name itself: the module name selects the probe of our module.
	probe="proc:$module::exec-success"
	check "the module is not loaded yet" is_not_loaded || return
	check_if_there "the module is copied to the folder of the kernel" install_module || return
	check "$loader loads the module" load || return
	check "$lister lists the module" is_loaded
	check "dtrace -l lists the probe" is_listed
	check "dtrace -l -v describes the probe" is_described
	check "three execs give three hits with their paths" fires
	check_if_there "args[0] is a string" has_typed_argument
	check "the hits can be aggregated" aggregates
	check "stack() contains functions of the module and of the kernel" has_stack
	check_if_there "fbt lists the module's functions" has_functions
	check "$by_hand fires the probe" fires_by_hand
	check "a consumer enables the probe" start_consumer &&
		check "$unloader is refused while the probe is enabled" is_refused &&
		check "the probe still fires" run_thrice &&
		check "all hits are counted" stop_consumer 3
	check "$unloader unloads the module" unload || return
	check "$lister does not list the module any more" is_not_loaded
	check "dtrace -l does not list the probe any more" is_not_listed
	check "$rounds rounds of load, list, trace and unload" lasts
}

route=machine
case $(uname -s) in
FreeBSD) freebsd ;;
SunOS) illumos ;;
*)
	uname -a >"$work/seen"
	fail "the system is FreeBSD or illumos"
	exit 1
	;;
esac
if [ -n "$provider" ] && [ "$(uname -s)" = SunOS ]; then
	echo "$0: -p is for FreeBSD: on illumos such a module consists of two files" >&2
	exit 2
fi
check "the system can load modules, and the user is root" is_ours
check "DTrace works" is_ready
if [ "$failed" -eq 0 ]; then
	prepare
	[ -n "$native" ] && check_module native "$native"
	[ -n "$provider" ] && check_module provider "$provider"
fi
echo "$passed passed, $failed failed, on $(uname -srm)"
[ "$failed" -eq 0 ]
