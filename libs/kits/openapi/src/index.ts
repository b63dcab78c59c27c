export { specError, type SpecWarning } from './findings.js';
export { DEFAULT_MAX_SPEC_BYTES, parseSpec, type SpecLimits } from './load/parse-spec.js';
export { assertAnyTool, convertDocument, type Conversion } from './convert/convert-document.js';
export type { ConvertOptions, OpenApiTool } from './convert/openapi-tool.js';
export { planFrom, planJson, type ParameterPlace, type SecurityScheme } from './plan.js';
export { buildRequest, headerText, type BuiltRequest } from './serialise/build-request.js';
export { encodeUnreserved } from './serialise/serialise-parameter.js';
