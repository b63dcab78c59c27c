/** Values against the published schemas: types, required fields, formats. Unknown fields are found by literals.mjs. */
import { modelModule } from './models.mjs';

/** An object without a model is a fault, not a skip. */
export async function schemaFaults(objects) {
  const faults = [];
  for (const object of objects) {
    const name = `${object.kind} ${object.metadata?.name}`;
    if (object.apiVersion === 'external-secrets.io/v1') {
      if (!object.spec?.data?.length) faults.push(`${name}: no data`);
      continue;
    }
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
