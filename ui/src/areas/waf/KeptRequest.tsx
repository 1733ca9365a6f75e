import { useTranslation } from 'react-i18next'
import type { WafAlertDetail } from '../../api/types'
import { Notice } from '../../kit/state/Notice'
import { Masked } from './marks'
import classes from './Waf.module.css'

/** A stored request: its line, headers and body, with masked parts highlighted. */
export function KeptRequest({ request }: Pick<WafAlertDetail, 'request'>) {
  const { t } = useTranslation('waf')
  const head = [
    [request.method, request.uri, request.version].filter(Boolean).join(' '),
    ...request.headers.map(({ name, value }) => `${name}: ${value}`),
  ]
  return (
    <div className={classes.detail}>
      {request.masked && <Notice tone="off">{t('detail.maskedText')}</Notice>}
      <Raw label={t('detail.headers')} text={head.join('\n')} />
      <div>
        <h4>{t('detail.body')}</h4>
        {request.body ? <Raw label={t('detail.body')} text={request.body} /> : <p>{t('detail.noBody')}</p>}
        {request.body_truncated && <span className={classes.soft}>{t('detail.truncated')}</span>}
      </div>
    </div>
  )
}

function Raw({ label, text }: { label: string; text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
    <section aria-label={label} tabIndex={0} className={`mono ${classes.raw}`}>
      <Masked text={text} />
    </section>
  )
}
