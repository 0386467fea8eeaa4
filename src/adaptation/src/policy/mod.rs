//! Policies of the operator: peers that may connect, changes that a plugin may request, and
//! privileges that a launched plugin runs with.
//!
//! Values and checks only; nothing here calls a plugin. Start from
//! [`PluginPolicy`](plugin_policy::PluginPolicy).

pub(crate) mod budget;
#[cfg(test)]
mod effects;
pub(crate) mod failure_policy;
pub(crate) mod fields;
pub(crate) mod peers;
pub(crate) mod permissions;
pub(crate) mod plugin_policy;
pub(crate) mod privileges;
pub(crate) mod reply_check;
mod runtime_keys;
pub(crate) mod scope;
pub(crate) mod withheld;
