//! A program with sites of every kind, or with `--cfg firing` one in which they fire and a framework records it. Built with
//! `--cfg without_panics` its panic handler calls what nobody defines: it links only if no panic can be reached. Otherwise
//! it does nothing.
#![cfg_attr(without_panics, no_std, no_main)]

#[cfg(all(without_panics, firing))]
mod firing;
#[cfg(without_panics)]
mod program;
#[cfg(all(without_panics, not(firing)))]
mod sites;

#[cfg(not(without_panics))]
fn main() {}
