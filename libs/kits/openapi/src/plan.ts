import type { Json, JsonObject } from '@toolfleet/base';

/** Where a parameter goes. `querystring` is 3.2's whole query string. */
export type ParameterPlace = 'path' | 'query' | 'querystring' | 'header' | 'cookie';

/** How one parameter is sent. Fields carry resolved defaults, so that nothing but the plan is needed to send it. */
export interface ParameterPlan {
  /** Argument that carries the value. */
  argument: string;
  in: ParameterPlace;
  name: string;
  style: string;
  explode: boolean;
  allow_reserved?: boolean;
  /** Media type of `content`; then style does not apply. */
  content?: string;
  required: boolean;
  /** Null is a value of its schema; otherwise a null argument counts as missing. */
  nullable?: boolean;
}

/** How a media type is written. */
export type BodyKind = 'json' | 'form' | 'multipart' | 'text' | 'xml' | 'binary';

/** How one property of a form or multipart body is written (Encoding Object). */
export interface PropertyEncoding {
  content_type?: string;
  style?: string;
  explode?: boolean;
  allow_reserved?: boolean;
}

/** How the request body is sent. */
export interface BodyPlan {
  /** As declared, sent as `Content-Type`; wildcards are replaced. */
  content_type: string;
  kind: BodyKind;
  required: boolean;
  encoding?: { [property: string]: PropertyEncoding };
  /** Properties of a multipart body that are files. */
  files?: string[];
  /** Name of the root element of an XML body. */
  root?: string;
}

/** One scheme of a security requirement, resolved from `components.securitySchemes`. */
export interface SecurityScheme {
  /** Its key in the document. */
  id: string;
  type: 'apiKey' | 'http' | 'oauth2' | 'openIdConnect' | 'mutualTLS';
  /** apiKey: header, query or cookie, and the name there. */
  in?: 'header' | 'query' | 'cookie';
  name?: string;
  /** http: `bearer`, `basic` …, lower case. */
  scheme?: string;
  /** oauth2: flows of the document; `client_credentials` is the one that works without a person. */
  token_url?: string;
  interactive_only?: boolean;
  scopes?: string[];
}

/** The complete, serialisable plan of one operation: `OpenApiBinding.plan`. */
export interface OperationPlan {
  method: string;
  /** Path template as declared, without fragment. */
  path: string;
  parameters: ParameterPlan[];
  body?: BodyPlan;
  /** Media types of successful answers, for `Accept`. */
  accept?: string[];
  /** OR of AND sets. Absent: the document says nothing; `[]`: no authentication; `[[]]`: anonymous is allowed. */
  security?: SecurityScheme[][];
}

/** Casts the plan of a binding; plans are created by `OpenApiTool.plan` only. */
export function planFrom(json: JsonObject): OperationPlan {
  return json as unknown as OperationPlan;
}

/** A plan as plain JSON. */
export function planJson(plan: OperationPlan): JsonObject {
  return plan as unknown as Record<string, Json>;
}
