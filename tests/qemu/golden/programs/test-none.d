/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::none, sdt_test:sdt_test::asked_first { trace(probename); }
