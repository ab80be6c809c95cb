/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::many-sites { trace(arg0); }
