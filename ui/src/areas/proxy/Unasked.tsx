import { useTranslation } from 'react-i18next'
import { Notice } from '../../kit/state/Notice'
import type { Live } from './health'

/** Says why the state of the backends is unknown. */
export function Unasked({ live }: { live: Live }) {
  const { t } = useTranslation('proxy')
  return (
    live.error && (
      <Notice tone="warn" title={t('unasked')}>
        {live.error}
      </Notice>
    )
  )
}
