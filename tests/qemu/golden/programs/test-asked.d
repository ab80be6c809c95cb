/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::asked_first { @ = lquantize(arg0, 0, 16, 3); }
