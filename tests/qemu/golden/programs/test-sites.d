/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::many-sites { @[arg0] = count(); @q = quantize(arg0); }
