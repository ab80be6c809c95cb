#!/bin/sh
# The checklist of docs/illumos.md, on a machine that runs illumos: loads a module that fires proc:::exec-success on every
# exec, lists its probe, traces with it, unloads it, and says PASS or FAIL for each step. Ends with status 0 if nothing
# failed.
#
#     checklist.sh [-r ROUNDS] MODULE      (cargo xtask kmod --os illumos)
#
# -r  how often it is loaded and unloaded in the last step (100)
#
# For root, on a machine on which nothing depends. The module is copied to /kernel/misc/amd64 and removed from there.

set -u

rounds=100
while getopts r: option; do
	case $option in
	r) rounds=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
if [ $# -ne 1 ]; then
	echo "usage: $0 [-r rounds] module" >&2
	exit 2
fi
file=$1
module=$(basename "$file")
installed=/kernel/misc/amd64/$module
# The kernel has probes of this name itself: the module's is told by its module.
probe="proc:$module::exec-success"

work=$(mktemp -d "${TMPDIR:-/tmp}/sdt-checklist.XXXXXX") || exit 2
consumer=
passed=0
failed=0
copied=

clean_up() {
	[ -n "$consumer" ] && kill "$consumer" 2>/dev/null && wait "$consumer" 2>/dev/null
	[ -n "$copied" ] && rm -f "$installed"
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 2' INT TERM HUP

# pass WHAT; fail WHAT, with what was seen in $work/seen.
pass() {
	passed=$((passed + 1))
	echo "PASS $1"
}

fail() {
	failed=$((failed + 1))
	echo "FAIL $1"
	[ -s "$work/seen" ] && sed 's/^/     | /' "$work/seen"
	return 1
}

# check WHAT COMMAND...: passes if the command succeeds.
check() {
	what=$1
	shift
	if "$@" >"$work/seen" 2>&1; then pass "$what"; else fail "$what"; fi
}

# A program that nobody else runs, so that its execs can be counted, and a script that runs it three times.
prepare() {
	cp /usr/bin/sleep "$work/traced" || exit 2
	printf '%s 0\n%s 0\n%s 0\n' "$work/traced" "$work/traced" "$work/traced" >"$work/thrice"
}

install_module() {
	[ ! -e "$installed" ] || { echo "$installed is there already"; return 1; }
	cp "$file" "$installed" && copied=yes
}

module_id() {
	modinfo | awk -v name="$module" '$6 == name { print $1 }'
}

is_loaded() {
	modinfo | grep " $module "
}

is_not_loaded() {
	! is_loaded
}

load() {
	modload -p "misc/$module"
}

unload() {
	modunload -i "$(module_id)"
}

# One row, and the module's.
is_listed() {
	dtrace -l -n "$probe" | tee "$work/out"
	[ "$(awk '$2 == "proc" && $NF == "exec-success"' "$work/out" | grep -c " $module ")" -eq 1 ]
}

is_not_listed() {
	! dtrace -l -n "$probe" 2>&1 | grep " $module "
}

# Evolving arguments of the instruction set: what illumos says of all probes of proc.
is_described() {
	dtrace -l -v -n "$probe" | tee "$work/out"
	grep -q 'Identifier Names: Evolving' "$work/out" && grep -q 'Dependency Class: ISA' "$work/out"
}

# Each exec once, with its path.
fires() {
	dtrace -q -n "$probe"'{ printf("%s\n", stringof(arg0)); }' -c "/bin/sh $work/thrice" |
	    tee "$work/out"
	[ "$(grep -cx "$work/traced" "$work/out")" -eq 3 ]
}

aggregates() {
	dtrace -q -n "$probe"'{ @[stringof(arg0)] = count(); }' -c "/bin/sh $work/thrice" |
	    tee "$work/out"
	[ "$(awk -v path="$work/traced" '$1 == path { print $2 }' "$work/out")" = 3 ]
}

has_stack() {
	dtrace -q -n "$probe"'{ stack(); exit(0); }' -c "/bin/sh $work/thrice" | tee "$work/out"
	grep -q "$module\`" "$work/out" && grep -q 'unix`' "$work/out"
}

# fbt has the module's functions, for it does not depend on dtrace.
has_functions() {
	dtrace -l -n "fbt:$module::entry" | grep " $module "
}

# Starts a consumer that counts, and waits until the probe is enabled.
start_consumer() {
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

# Ends it, which prints the count.
stop_consumer() {
	kill -TERM "$consumer" && wait "$consumer"
	consumer=
	cat "$work/counted"
	[ "$(awk 'NF == 1 && $1 ~ /^[0-9]+$/ { print $1 }' "$work/counted")" = "$1" ]
}

is_refused() {
	if unload; then
		echo "it is gone, with a consumer that has its probe enabled"
		return 1
	fi
	is_loaded
}

run_thrice() {
	/bin/sh "$work/thrice"
}

# Loaded and unloaded again and again, traced every tenth time.
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

is_illumos() {
	uname -sprv
	id
	[ "$(uname -s)" = SunOS ] && [ "$(isainfo -k)" = amd64 ] && id | grep '^uid=0('
}

check_module() {
	check "is not loaded yet" is_not_loaded || return
	check "is copied to $installed" install_module || return
	check "modload takes the module" load || return
	check "modinfo has it" is_loaded
	check "dtrace -l lists the probe" is_listed
	check "dtrace -l -v describes it" is_described
	check "three execs are three hits, with their paths" fires
	check "they can be aggregated" aggregates
	check "stack() has the module's function and the kernel's" has_stack
	check "fbt lists the module's functions" has_functions
	check "a consumer enables the probe" start_consumer &&
		check "modunload is refused while it is enabled" is_refused &&
		check "it goes on firing" run_thrice &&
		check "and all hits are counted" stop_consumer 3
	check "modunload takes it away" unload || return
	check "modinfo has it no more" is_not_loaded
	check "nor has dtrace -l" is_not_listed
	check "$rounds times loaded, listed, traced and unloaded" lasts
}

check "it is illumos on x86-64, and we are root" is_illumos
check "DTrace is there" dtrace -l -n 'dtrace:::BEGIN'
if [ "$failed" -eq 0 ]; then
	prepare
	check_module
fi
echo "$passed passed, $failed failed, on $(uname -srv)"
[ "$failed" -eq 0 ]
