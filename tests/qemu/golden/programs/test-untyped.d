/* | exec /bin/echo /bin/date /bin/echo */
sdt_open:sdt_test::untyped { trace(stringof(arg1)); }
