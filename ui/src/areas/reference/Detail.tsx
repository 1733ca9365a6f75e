import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { CopyText } from '../../kit/page/CopyText'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Fold } from '../../kit/page/Fold'
import { Facts } from '../../kit/page/Page'
import { componentName } from '../../kit/state/condition'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { dotted, paths } from '../../paths'
import { type ApiCall, type Document, exampleOf, type FieldRow, fieldsOf, limitsOf, typeText } from './document'
import { Method } from './Method'
import classes from './Reference.module.css'
import { documentQuery } from './resources'
import { TryIt } from './TryIt'

/** Answers without a specific status. */
const others = { default: true, '4XX': true }

/** One API call: its parameters, its answers, and a form to try it. */
export function Detail() {
  const { t } = useTranslation('reference')
  const id = dotted((useParams({ strict: false }) as { id: string }).id)
  const query = useQuery(documentQuery)
  const call = query.data?.calls.find((one) => one.id === id)
  return (
    <DetailDrawer title={call?.summary ?? id} back={paths.reference} wide>
      <Loaded query={query} height={320}>
        {({ document }) =>
          call ? <Call key={id} call={call} document={document} /> : <Notice tone="warn">{t('unknown')}</Notice>
        }
      </Loaded>
    </DetailDrawer>
  )
}

function Call({ call, document }: { call: ApiCall; document: Document }) {
  const { t } = useTranslation('reference')
  const done = call.answers.find(({ data }) => data)
  return (
    <div className={classes.detail}>
      <p className={classes.line}>
        <Method name={call.method} /> <span className="mono">/api/v1{call.path}</span>
      </p>
      <Facts
        facts={[
          [
            t('call.id'),
            <span key="id" className="mono">
              {call.id}
            </span>,
          ],
          [t('call.policy'), t(`policies.${call.policy}.long`)],
          ...(call.audit ? [[t('call.audit'), call.audit] as [string, string]] : []),
          ...(call.feeds.length > 0
            ? [[t('call.feeds'), call.feeds.map(componentName).join(', ')] as [string, string]]
            : []),
        ]}
      />
      {call.parameters.length > 0 && (
        <section>
          <h3>{t('parameters')}</h3>
          <Fields
            rows={call.parameters.map((one) => ({
              path: one.name,
              depth: 0,
              type: `${t(`in.${one.in}`)}, ${typeText(document, one.schema ?? {})}`,
              limits: limitsOf(one.schema ?? {}),
              required: one.required ?? false,
              description: one.description ?? '',
            }))}
          />
        </section>
      )}
      {call.body && (
        <section>
          <h3>{t('body')}</h3>
          <Fields rows={fieldsOf(document, call.body.schema, true)} />
          <Fold title={t('example')}>
            <CopyText label={t('example')} text={JSON.stringify(exampleOf(document, call.body.schema), null, 2)} />
          </Fold>
        </section>
      )}
      <section>
        <h3>{t('answers')}</h3>
        <Facts
          facts={call.answers.map(({ status, description }) => [
            status in others ? t(`statuses.${status}`) : status,
            description,
          ])}
        />
        {done?.data && (
          <Fold title={t('data')} said={typeText(document, done.data)}>
            <Fields rows={fieldsOf(document, done.data, false)} />
          </Fold>
        )}
      </section>
      <TryIt call={call} document={document} />
    </div>
  )
}

function Fields({ rows }: { rows: FieldRow[] }) {
  const { t } = useTranslation('reference')
  if (rows.length === 0) return <p className="soft">{t('noFields')}</p>
  return (
    <dl className={classes.fields}>
      {rows.map(({ path, depth, type, limits, required, description }) => (
        <div key={path} style={{ paddingInlineStart: depth * 14 }}>
          <dt>
            <span className="mono">{path}</span>{' '}
            <span className="soft">{[type, required && t('required')].filter(Boolean).join(', ')}</span>
          </dt>
          <dd>
            {description}
            {limits && <span className={`mono ${classes.limits}`}>{limits}</span>}
          </dd>
        </div>
      ))}
    </dl>
  )
}
