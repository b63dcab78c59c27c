/** Values against the published schemas: types, required fields, formats. Unknown fields are found by literals.mjs. */
import { modelModule, OWN_MODELS } from './models.mjs';

/** An object without a model is a fault, not a skip. */
export async function schemaFaults(objects) {
  const faults = [];
  for (const object of objects) {
    const name = `${object.kind} ${object.metadata?.name}`;
    // Types and required fields of these are checked by the compiler alone.
    if (object.apiVersion in OWN_MODELS) continue;
    try {
      const { [object.kind]: Model } = await import(modelModule(object.apiVersion));
      if (!Model) throw new Error(`no model of ${object.apiVersion}`);
      new Model(object).validate();
    } catch (error) {
      faults.push(`${name}: ${error.message}`);
    }
  }
  return faults;
}
