provider broken {
    probe start(float f);
};
