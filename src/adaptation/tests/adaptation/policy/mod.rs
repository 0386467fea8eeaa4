//! Tests of what the policies of plugins say: failures, budgets, permissions, scopes.

mod budget;
mod failure_policy;
mod observe;
mod permissions;
mod scope;
