provider _broken {
    probe start();
};
