import { getMetadataStorage, validateSync, type ValidationError } from 'class-validator';
import { isJsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import { rejectUnknownFields } from '@toolfleet/contracts/call-fields';

/**
 * Reads a request body or query into its DTO class: unknown fields are refused (mass assignment), declared ones checked
 * by class-validator. Shallow: `arguments` stays the parsed JSON, untouched. Nest's stock ValidationPipe would walk the
 * whole tree. Built once per class.
 */
export function readerFor<T extends object>(Dto: new () => T): (body: unknown) => T {
  // A Set, not class-validator's `whitelist`: that lets an own "__proto__" key pass (its table is a plain object).
  const declared = new Set(
    getMetadataStorage()
      .getTargetValidationMetadatas(Dto, '', false, false)
      .map((metadata) => metadata.propertyName),
  );
  return (body) => {
    const source = bodyObject(body);
    rejectUnknownFields(Object.keys(source).filter((key) => !declared.has(key)));
    const dto = Object.assign(new Dto(), source);
    const faults = validateSync(dto);
    if (faults.length > 0) throw invalid(faults);
    return dto;
  };
}

/** @throws ToolError REQUEST_INVALID unless the body is a JSON object */
export function bodyObject(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
}

function invalid(faults: ValidationError[]): ToolError {
  const fields = faults.map((fault) => fault.property);
  const reasons = faults.flatMap((fault) => Object.values(fault.constraints ?? {}));
  return new ToolError('REQUEST_INVALID', {
    message: `Invalid request: ${reasons.join('; ')}`,
    details: { fields, reasons },
  });
}
