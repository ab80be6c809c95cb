#!/bin/sh
# The work that exec.strace was recorded from: a manual page, a small C project from nothing to its
# tests, packages, and programs that are not there.
man strace > man.txt
git init -q greeter
cd greeter
git config user.name demo
git config user.email demo@example.org
cat > greet.c <<'C'
#include <stdio.h>
int main(int argc, char **argv) { return printf("hello, %s\n", argc > 1 ? argv[1] : "world") < 0; }
C
cat > Makefile <<'M'
objects := $(addsuffix .o,greet $(shell seq -f word%g 40))
all: greeter check
greeter: $(objects)
	$(CC) -o $@ $^
word%.c:
	printf 'int word%s(void) { return %s; }\n' $* $* > $@
check: greeter
	for n in $$(seq 60); do ./greeter $$n | grep -q "hello, $$n" || exit 1; done
	for n in $$(seq 60); do test "$$(expr $$n + 1)" -gt "$$n" || exit 1; done
clean:
	rm -f greeter *.o
M
make -j4
cp greeter 'grüß dich' && './grüß dich' you
git add greet.c Makefile
git commit -q -m "A greeter"
git log --stat | cat
make clean
cd ..
dpkg -l | awk '/^ii/ { print $2 }' | sort | head -n 25 | xargs -n 1 dpkg-query -W
find /usr/share/man/man1 -name 'd*' -exec basename {} \;
python3 -c 'import subprocess
for n in range(40): subprocess.run(["true"] if n % 2 else ["sh", "-c", "exit 3"])'
perl -e 'for (1..40) { system("/bin/echo", $_) } exec("no-such-program") or exit 0'
