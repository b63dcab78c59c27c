import { getMetadataStorage, validateSync, type ValidationError } from 'class-validator';
import { isJsonObject, ToolError } from '@toolfleet/contracts';

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
    if (!isJsonObject(body)) {
      throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
    }
    const unknown = Object.keys(body).filter((key) => !declared.has(key));
    if (unknown.length > 0) {
      throw new ToolError('REQUEST_INVALID', { message: `Unknown field ${quoted(unknown)}`, details: { unknown } });
    }
    const dto = Object.assign(new Dto(), body);
    const faults = validateSync(dto);
    if (faults.length > 0) throw invalid(faults);
    return dto;
  };
}

function invalid(faults: ValidationError[]): ToolError {
  const fields = faults.map((fault) => fault.property);
  const reasons = faults.flatMap((fault) => Object.values(fault.constraints ?? {}));
  return new ToolError('REQUEST_INVALID', {
    message: `Invalid request: ${reasons.join('; ')}`,
    details: { fields, reasons },
  });
}

function quoted(names: string[]): string {
  return names.map((name) => `'${name}'`).join(', ');
}
