//! Untyped metadata of the proxy: the subset hint and the endpoint that served.

use pointsman_grpc::{Cursor, Fields, WireError, WireType};

/// Namespace and key of the subset hint.
const SUBSET: (&str, &str) = ("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset");
/// Namespace of the endpoint that served; its key is a header name.
const SERVED: &str = "envoy.lb";

/// Endpoints that a request may go to: entries of the list that are text. `None` without a list.
pub(crate) fn subset(metadata: &Cursor) -> Result<Option<Vec<String>>, WireError> {
    let Some(value) = value(metadata, SUBSET.0, SUBSET.1)?.1 else { return Ok(None) };
    let mut value = Fields(&value);
    let mut list = None;
    while let Some((field, wire)) = value.field()? {
        match (field, wire) {
            // `list_value`.
            (6, WireType::Length) => {
                let mut entries = Vec::new();
                let mut values = Fields(value.bytes()?);
                while let Some((field, wire)) = values.field()? {
                    match (field, wire) {
                        (1, WireType::Length) => entries.extend(text(values.bytes()?)?),
                        _ => values.skip(wire)?,
                    }
                }
                list = Some(entries);
            }
            _ => value.skip(wire)?,
        }
    }
    Ok(list)
}

/// What the proxy says of the endpoint that served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServedMetadata {
    NoNamespace,
    NoKey,
    Endpoint(String),
}

pub(crate) fn served(metadata: Option<&Cursor>) -> Result<ServedMetadata, WireError> {
    let Some(metadata) = metadata else { return Ok(ServedMetadata::NoNamespace) };
    let (namespace, value) = value(metadata, SERVED, pointsman_core::headers::SERVED)?;
    let endpoint = value.map(|value| text(&value)).transpose()?.flatten();
    Ok(match endpoint {
        _ if !namespace => ServedMetadata::NoNamespace,
        Some(endpoint) => ServedMetadata::Endpoint(endpoint),
        None => ServedMetadata::NoKey,
    })
}

/// The text of a `Value`, if it is one.
fn text(value: &[u8]) -> Result<Option<String>, WireError> {
    let mut value = Fields(value);
    let mut found = None;
    while let Some((field, wire)) = value.field()? {
        match (field, wire) {
            (3, WireType::Length) => found = Some(String::from_utf8_lossy(value.bytes()?).into_owned()),
            _ => value.skip(wire)?,
        }
    }
    Ok(found)
}

/// Whether the namespace is there, and the `Value` of a key in it.
fn value(metadata: &Cursor, namespace: &str, key: &str) -> Result<(bool, Option<bytes::Bytes>), WireError> {
    let mut cursor = metadata.clone();
    let (mut there, mut found) = (false, None);
    while let Some((field, wire)) = cursor.field()? {
        // `filter_metadata`, a map from namespace to `Struct`.
        if (field, wire) != (1, WireType::Length) {
            cursor.skip(wire)?;
            continue;
        }
        let entry = cursor.bytes()?;
        let Some(fields) = entry_value(&entry, namespace)? else { continue };
        there = true;
        let mut fields = Fields(fields);
        while let Some((field, wire)) = fields.field()? {
            if (field, wire) != (1, WireType::Length) {
                fields.skip(wire)?;
                continue;
            }
            if let Some(value) = entry_value(fields.bytes()?, key)? {
                found = Some(entry.slice_ref(value));
            }
        }
    }
    Ok((there, found))
}

/// The value of a map's entry, if its key is the wanted one.
fn entry_value<'a>(entry: &'a [u8], wanted: &str) -> Result<Option<&'a [u8]>, WireError> {
    let mut entry = Fields(entry);
    let (mut key, mut value): (&[u8], &[u8]) = (b"", b"");
    while let Some((field, wire)) = entry.field()? {
        match (field, wire) {
            (1, WireType::Length) => key = entry.bytes()?,
            (2, WireType::Length) => value = entry.bytes()?,
            _ => entry.skip(wire)?,
        }
    }
    Ok((key == wanted.as_bytes()).then_some(value))
}
