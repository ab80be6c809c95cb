//! Semantic analysis: names, types, and libdtrace's errors.
//!
//! A tree is [built](build) into nodes once, which folds constants and finds functions, as libdtrace's parser does. For
//! each probe of a clause the nodes are then [cooked](cook): names become variables, types are worked out and checked.
//! Cooking creates new nodes, so the built ones stay unchanged for the next probe.

mod action;
mod args;
mod assign;
mod binary;
mod build;
mod builtin;
mod control;
mod conventional;
mod cook;
mod decl;
mod described;
mod fold;
mod function;
mod id;
mod ident;
mod inline;
mod member;
mod named;
mod names;
mod node;
mod prototype;
mod provider;
mod query;
mod record;
mod session;
mod specs;
mod state;
mod suggest;
mod tags;
mod type_name;
mod unary;
mod xlator;

pub(crate) use action::TracingFunction;
pub(crate) use conventional::is_type as is_conventional_type;
pub(crate) use cook::Use;
pub(crate) use id::{IdentId, XlatorId};
pub(crate) use ident::{Function, IdKind, Ident};
pub(crate) use named::name_in;
pub(crate) use node::{Kind, Node, NodeFlags, TypeRef};
pub(crate) use session::{Probe, Scope, Session};
pub(crate) use state::State;
