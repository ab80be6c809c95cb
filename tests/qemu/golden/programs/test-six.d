/* -q | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::six { printf("%d %d %s\n", (int)(arg0 + arg1), arg3 - 3 * arg0, stringof(args[4])); }
