/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::six /arg2 == (arg0 & 1)/ { @[stringof(arg4)] = count(); }
