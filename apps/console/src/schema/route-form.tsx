import type { JsonObject, RouteAnswer, RouteKey, RouteRequest } from '@toolfleet/client';
import { CONNECTION_ROUTES, CREDENTIAL_ROUTES, USAGE_ROUTES, WEBHOOK_ROUTES } from '@toolfleet/contracts/resources';
import { useState, type ReactNode } from 'react';
import { useSigned } from '../session.js';
import { ActionForm } from '../ui/components.js';
import { FieldControls } from './field-control.js';
import { initialTexts, readForm, type FormTexts } from './form.js';
import { refusedFields, toRouteFields, type MemberTable } from './route-fields.js';

/** Only the rows of routes with a form are part of the console. */
const ROWS = { ...WEBHOOK_ROUTES, ...CREDENTIAL_ROUTES, ...USAGE_ROUTES, ...CONNECTION_ROUTES };

/** Routes with a form. */
type FormRoute = {
  [K in keyof typeof ROWS & RouteKey]: (typeof ROWS)[K] extends { body: JsonObject } ? K : never;
}[keyof typeof ROWS & RouteKey];
/** The body of a route with a form. */
type RouteBody<K extends FormRoute> = RouteRequest<K> extends { body: infer B } ? B : never;
type Members<K extends FormRoute> = MemberTable<keyof RouteBody<K> & string>;

interface RouteFormProps<K extends FormRoute> {
  route: K;
  /** The members that the form asks for, also as they follow from its texts. */
  members: Members<K> | ((texts: FormTexts) => Members<K>);
  submit: string;
  /** Members of the path, and members of the body that the form does not ask for. */
  request?: { path?: Record<string, string>; body?: Partial<RouteBody<K>> };
  /** Whether the body suffices, where that is more than its required members. */
  isComplete?: (texts: FormTexts) => boolean;
  onDone?: (answer: RouteAnswer<K>) => void;
  /** Further actions with the body. It is undefined while the form is incomplete or has faults. */
  children?: (read: () => RouteBody<K> | undefined, isReady: boolean) => ReactNode;
}

/**
 * A form of the body of a route: labels, kinds, limits and choices come from its row. The button is enabled once all required fields
 * have a value. Refusals appear at the fields that they name; the form is emptied after a success.
 */
export function RouteForm<K extends FormRoute>(props: RouteFormProps<K>) {
  const { route, members, submit, request, isComplete = () => true, onDone, children } = props;
  const { api } = useSigned();
  const toForm = (texts: FormTexts) =>
    toRouteFields(ROWS[route].body, typeof members === 'function' ? members(texts) : members);
  const [entered, setEntered] = useState<FormTexts>({});
  const [faults, setFaults] = useState<FormTexts>({});
  const texts = { ...initialTexts(toForm(entered)), ...entered };
  const fields = toForm(texts);
  const isReady = fields.every(({ name, required }) => !required || texts[name]?.trim()) && isComplete(texts);
  const read = (): RouteBody<K> | undefined => {
    const trimmed = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, text.trim()]));
    const reading = readForm(fields, trimmed);
    setFaults('faults' in reading ? reading.faults : {});
    return 'faults' in reading ? undefined : (reading.arguments as RouteBody<K> & JsonObject);
  };
  const send = async () => {
    const body = read();
    if (!body) return;
    const sent = { ...request, body: { ...request?.body, ...body } };
    const answer = await api.request<FormRoute>(route, sent as RouteRequest<FormRoute>);
    onDone?.(answer as RouteAnswer<K>);
    setEntered({});
  };
  return (
    <>
      <ActionForm submit={submit} disabled={!isReady} work={send}>
        {(error) => (
          <div className="fields">
            <FieldControls
              marks="required"
              fields={fields}
              texts={texts}
              faults={{ ...refusedFields(error, fields), ...faults }}
              onChange={setEntered}
            />
          </div>
        )}
      </ActionForm>
      {children?.(read, isReady)}
    </>
  );
}
