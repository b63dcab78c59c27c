export { specError, type SpecReason, type SpecRefusal, type SpecWarning } from './findings.js';
export { DEFAULT_MAX_SPEC_BYTES, parseSpec, type SpecDocument, type SpecLimits } from './load/parse-spec.js';
export { assertAnyTool, convertDocument, type Conversion } from './convert/convert-document.js';
export type { ConvertOptions } from './convert/openapi-tool.js';
export type { OpenApiTool } from './convert/openapi-tool.js';
export type { ServerOptions } from './convert/select-server.js';
export {
  beginInspection,
  inspectOpenApi,
  inspectTool,
  type InspectedTool,
  type Inspection,
  type InspectionParts,
  type InspectOptions,
} from './inspect.js';
export {
  planFrom,
  planJson,
  type BodyPlan,
  type OperationPlan,
  type ParameterPlace,
  type ParameterPlan,
  type SecurityScheme,
} from './plan.js';
export { buildRequest, headerText, type BuiltRequest } from './serialise/build-request.js';
export { encodeUnreserved } from './serialise/serialise-parameter.js';
