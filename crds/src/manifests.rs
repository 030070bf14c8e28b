//! Takes the types, gives the `CustomResourceDefinition`s that a cluster is given; must never touch a file or a cluster.

use crate::v1alpha1::{AllocatorClass, AllocatorPolicy, AllocatorRegion, AllocatorRollout};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

/// A definition could not be written as YAML.
#[derive(Debug)]
pub struct ManifestError(String);

impl std::fmt::Display for ManifestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the definition could not be written as YAML: {}", self.0)
    }
}

impl std::error::Error for ManifestError {}

/// Every kind's definition with the name of its file, in the order in which they are best read.
pub fn all() -> Vec<(&'static str, CustomResourceDefinition)> {
    let definitions = [
        ("allocatorpolicies.yaml", AllocatorPolicy::crd()),
        ("allocatorrollouts.yaml", AllocatorRollout::crd()),
        ("allocatorclasses.yaml", AllocatorClass::crd()),
        ("allocatorregions.yaml", AllocatorRegion::crd()),
    ];
    definitions
        .into_iter()
        .map(|(file, definition)| (file, tidied(definition)))
        .collect()
}

/// The definition as YAML, without a document marker. Every string that could be read as something else is quoted.
pub fn to_yaml(definition: &CustomResourceDefinition) -> Result<String, ManifestError> {
    serde_saphyr::to_string(definition).map_err(|error| ManifestError(error.to_string()))
}

/// The definition as people read it and as an API server should take it.
fn tidied(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            tidy(schema);
        }
    }
    definition
}

/// In a schema and everything below it:
/// * an optional field is one that may be absent; `null` is not a second way to say so (without `nullable` the API server
///   drops it and applies the default);
/// * a description is one paragraph: it is wrapped by whoever shows it, not where its source line ended.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.description = schema.description.take().map(|text| one_paragraph(&text));
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        tidy(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = schema.items.as_mut() {
        tidy(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        tidy(values);
    }
}

/// Lines joined by spaces; an empty line still separates paragraphs.
fn one_paragraph(text: &str) -> String {
    let paragraphs: Vec<String> = text
        .split("\n\n")
        .map(|paragraph| {
            paragraph
                .lines()
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    paragraphs.join("\n\n")
}
